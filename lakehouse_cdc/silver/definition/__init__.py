"""What a silver table is, as pure values: its form, its columns and where they come from, and what the user configured.

- `form`: what the table keeps of its source's rows (current rows, versions, soft deletes, appended rows).
- `policy`: what is configured for one silver table.
- `transform`: renamed and computed columns, filters, metadata columns.
- `column_mapping`: silver's columns, and the source columns that they come from.
- `casts`: what becomes of a value when its column gets another type.
"""
