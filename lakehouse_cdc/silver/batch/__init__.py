"""What a batch of bronze holds, and how its images become typed columns.

- `contents`: the changes, barriers and schema boundaries of each table in a batch.
- `batch_from_files`: the same from Delta's statistics of bronze's files, where these say enough.
- `typed_columns`: from VARIANT images to typed columns.
- `computed_columns`: computed columns and filters, and what they may not be.
"""
