"""How the forms of silver tables take a batch: one writer each, in Spark, and what they share.

- `current`, `soft_deletes`, `history`, `append`: the writer of the form of that name.
- `merge`: the one commit that brings a table to a position.
- `versions`: from the changes of a key to its versions.
- `key_change`: rows that are equal under a new key.
- `incremental_writer`: what the writers share that depend on the order of changes.
"""
