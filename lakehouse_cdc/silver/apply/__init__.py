"""Bring silver through batches of bronze: the top of this package, which uses all the other rooms.

- `stream`: the streaming query from bronze to silver, and the position that silver is at.
- `applier`: one range of bronze commits, applied to all tables that it touches, side by side.
- `table_applier`: one table through one batch, in which its schema may change once or several times.
- `rebuild`: tables whose settings have changed, built again from bronze beside the old ones.
- `schema_executor`: the steps of one schema change, each carried out as one commit.
"""
