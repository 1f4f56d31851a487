"""Silver's tables in the lake: how they are made, and what they say of themselves.

- `table_definition`: columns, properties and creation of a silver table.
- `properties`: what a table and its commits say of what has been applied to it.
- `names`: which source table a silver table is of, where the names of several meet.
- `tombstones`: the table of deleted keys and barriers beside each silver table.
- `known_schemas`: the schemas that bronze has met. `progress`: how far silver is.
- `ledger_table`: what the ledger is. `ledger`: for each batch the version of every table, and the source's position.
"""
