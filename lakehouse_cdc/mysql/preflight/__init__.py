"""What must be true of a server before its first row is read: `checks`, and its `settings` one by one."""
