"""How each form of silver table takes a batch: one module a form, and what they share.

- `current`: rows as they are now (SCD type 1), deletes removed.
- `soft_deletes`: rows as they are now, deletes marked.
- `history`: every version of a row (SCD type 2).
- `append`: rows that are only ever added, of tables without a key.
- `merge`: the one commit that brings a table to a position.
- `versions`: from the changes of a key to its versions.
- `incremental_writer`: what the forms share that depend on the order of changes.
"""
