"""What a crash leaves, and how it is deleted: folders without a table, half-deleted folders."""
