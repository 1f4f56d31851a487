"""The `mysql_cdc` Spark source: snapshot and binlog in one stream. See `stream` for the entry point."""
