"""Before the first batch: whether checkpoint, tables and configuration belong together (`settling`), and `reset`."""
