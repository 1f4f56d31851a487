"""The bronze row: the one contract between the source, the bronze tables and silver.

Append-only, fixed for ever; DDL cannot change it. `source` emits these columns in this order, `bronze` stores them,
`silver` reads them. An `s` row holds a table's schema (`TableSchema.to_dict()` and the field `statement`) in `after`,
and has no key; every other row has the primary key's columns in `key`, or those that the user gives as one. Of a table
without either, `key` is NULL, the rows are a multiset, and all r of one seq are all rows there (see `multiset`).

An `x` row has in `after` the seq below which no row stands any more: where the repeated read began. Of a table that is
read at once, for it has no primary key, that is the seq of its r, and `before` has where the pass began.

An `s` row with a schema in `before`, too, is a change from that one, at its seq: rows below were written under the old
schema, rows above under the new. Its `after` also has `origin`, which maps each column that existed before to the name
it had, and may have `filled`: what all rows that stand hold in some of the new columns, as text. Where the rows that
stand do not hold the same values under the new schema, the source reads the table again.

Of a table that was dropped, `after` has no schema but `dropped`, and of one that is not followed from there on
`quarantined`, the reason. If it comes back it begins with a change, and is read from its begin.
"""

from __future__ import annotations

SCHEMA = (
    "seq DECIMAL(38,0), op STRING, source_table STRING, key VARIANT, before VARIANT, after VARIANT, "
    "commit_ts TIMESTAMP, position STRUCT<server_uuid: STRING, file: STRING, pos: BIGINT, gtid: STRING>, "
    "schema_id STRING"
)
PARTITION = "source_table"
STATISTICS = ("seq", "op", "commit_ts", "schema_id")  # a VARIANT has none worth its cost
# what the source gives where its tasks write files of those columns themselves, a line for each: see `lake.files`
FILES = "source_table STRING, path STRING, size BIGINT, modified BIGINT, stats STRING, ops STRING, schemas STRING"
LEFT = "variant_get(after, '$.columns', 'variant') IS NULL"  # whether an s row says that the table is left off there
