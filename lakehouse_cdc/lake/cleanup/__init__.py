"""What a crash leaves, and how it is deleted: files without a commit, folders without a table, half-deleted folders."""
