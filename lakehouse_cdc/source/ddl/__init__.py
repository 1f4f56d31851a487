"""What statements in the log mean for the captured tables of the next offset.

- `transitions`: what each DDL makes of a table's state. `schema_resolution`: the schema after a DDL.
- `text_statements`: statements that were logged as text although they may have changed rows.
"""
