"""The bronze row: the one contract between the source, the bronze tables and silver.

Append-only, fixed for ever; DDL cannot change it. `source` emits these columns in this order, `bronze` stores them,
`silver` reads them. An `s` row holds a table's schema (`TableSchema.to_dict()` and the field `statement`) in `after`,
and has no key; every other row has the primary key's columns in `key`.
"""

from __future__ import annotations

SCHEMA = (
    "seq DECIMAL(38,0), op STRING, source_table STRING, key VARIANT, before VARIANT, after VARIANT, "
    "commit_ts TIMESTAMP, position STRUCT<server_uuid: STRING, file: STRING, pos: BIGINT, gtid: STRING>, "
    "schema_id STRING"
)
PARTITION = "source_table"
