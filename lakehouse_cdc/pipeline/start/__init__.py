"""Before the first batch: whether checkpoint, tables and configuration belong together (`settling`), what a changed
configuration does (`configuration_changes`), and `reset`.
"""
