"""The `mysql_cdc` data source as Spark sees it.

- `stream`: the data source itself. `stream_reader`: one stream of it.
- `limited_reader` and `legacy_reader`: how Spark asks for the end of a batch, from 4.2 on and before.
"""
