"""Delta tables and Spark checkpoints, as bronze, silver and verify all use them. Knows nothing of MySQL."""
