"""The bronze row, declared once: the contract between the source, the bronze tables and silver.

The Delta table (`bronze.tables`), the schema of the source's stream, its Arrow batches (`bronze_arrow`), the encodings
of its Parquet files (`lake.direct.change_files`) and the table in `docs/reference/tables.md` are made from `COLUMNS`;
the line that the source gives for each file that it wrote, from `FILE_COLUMNS`. Guards:
`tests/model/test_bronze_row.py`.

Append-only, fixed for ever; DDL cannot change it. `source` emits these columns in this order, `bronze` stores them,
`silver` reads them. An `s` row holds a table's schema (`TableSchema.to_dict()` and the field `statement`) in `after`,
and has no key; every other row has the primary key's columns in `key`, or those that the user gives as one. Of a table
without either, `key` is NULL, the rows are a multiset, and all r of one seq are all rows there (see `multiset`).

An `x` row has in `after` the seq below which no row counts any more: where the repeated read began. Of a table that is
read at once, for it has no primary key, that is the seq of its r, and `before` has where the pass began.

An `s` row with a schema in `before`, too, is a change from that one, at its seq: rows below were written under the old
schema, rows above under the new. Its `after` also has `origin`, which maps each column that existed before to the name
it had, and may have `filled`: what all rows that exist hold in some of the new columns, as text. Where the rows that
exist do not hold the same values under the new schema, the source reads the table again.

Of a table that was dropped, `after` has no schema but `dropped`, and of one that is not followed from there on
`quarantined`, the reason. If it comes back it begins with a change, and is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

VARIANT = "variant"


@dataclass(frozen=True)
class BronzeColumn:
    """One column, or a field of one. `type` is Spark's name of its type; of a struct it is its fields.

    `shared`: most rows of a batch have the same value, so it is a dictionary in Arrow and in Parquet; of a VARIANT its
    metadata is. `rising`: each value is a little greater than the one before, as Parquet's delta encoding wants it.
    `bounds`: row groups have its least and greatest value, and `statistics`: Delta has them, too, of every file.
    """

    name: str
    type: str | tuple[BronzeColumn, ...]
    meaning: str
    shared: bool = False
    rising: bool = False
    bounds: bool = False
    statistics: bool = False

    @property
    def sql(self) -> str:
        """The type as Spark SQL reads it."""
        if isinstance(self.type, str):
            return self.type
        return f"struct<{', '.join(f'{field.name}: {field.sql}' for field in self.type)}>"


COLUMNS = (
    BronzeColumn("seq", "decimal(38,0)", "the row's place in the total order", bounds=True, statistics=True),
    BronzeColumn(
        "op",
        "string",
        "`r` read by a snapshot, `c` insert, `u` update, `d` delete, `t` truncate, `s` schema change, `x` end of a "
        "repeated pass",
        shared=True,
        bounds=True,
        statistics=True,
    ),
    BronzeColumn("source_table", "string", "`database.table`; the table is partitioned by it", shared=True),
    BronzeColumn("key", VARIANT, "the columns of the key; NULL in `s` and `x` rows and without a key", shared=True),
    BronzeColumn("before", VARIANT, "the row before the change", shared=True),
    BronzeColumn("after", VARIANT, "the row after the change or as it was read; of an `s` row the schema", shared=True),
    BronzeColumn(
        "commit_ts", "timestamp", "the commit time that the log has", rising=True, bounds=True, statistics=True
    ),
    BronzeColumn(
        "position",
        (
            BronzeColumn("server_uuid", "string", "the server whose log it is", shared=True),
            BronzeColumn("file", "string", "the binlog file", shared=True),
            BronzeColumn("pos", "bigint", "the end of the transaction in it", rising=True, bounds=True),
            BronzeColumn("gtid", "string", "the transaction's GTID, if it has one", shared=True),
        ),
        "where the change is in the log",
    ),
    BronzeColumn(
        "schema_id", "string", "the schema that the row was written under", shared=True, bounds=True, statistics=True
    ),
)
# what the source gives where its tasks write files of those columns themselves, a line for each
FILE_COLUMNS = (
    BronzeColumn("source_table", "string", "whose rows the file has"),
    BronzeColumn("path", "string", "relative to the table's folder, encoded like a URL"),
    BronzeColumn("size", "bigint", "bytes"),
    BronzeColumn("modified", "bigint", "milliseconds since 1970"),
    BronzeColumn("stats", "string", "Delta's statistics of the file"),
    BronzeColumn("ops", "string", "JSON: how many rows of each op"),
    BronzeColumn("schemas", "string", "JSON: its `s` rows, as the table of schemas has them"),
)


def ddl(columns: Sequence[BronzeColumn]) -> str:
    """The columns as Spark's parser of schemas reads them."""
    return ", ".join(f"{column.name} {column.sql}" for column in columns)


def leaves(columns: Sequence[BronzeColumn] = COLUMNS, within: str = "") -> Iterator[tuple[str, BronzeColumn]]:
    """Each column without fields, and each field of the others, by its path in Parquet; a VARIANT by its own."""
    for column in columns:
        if isinstance(column.type, str):
            yield within + column.name, column
        else:
            yield from leaves(column.type, f"{within}{column.name}.")


SCHEMA, FILES = ddl(COLUMNS), ddl(FILE_COLUMNS)
POSITION = next(column.sql for column in COLUMNS if column.name == "position")
PARTITION = "source_table"
STATISTICS = tuple(column.name for column in COLUMNS if column.statistics)  # a VARIANT has none worth its cost
LEFT = "variant_get(after, '$.columns', 'variant') IS NULL"  # whether an s row says that the table is left off there


def markdown() -> str:
    """The table of `docs/reference/tables.md`."""
    lines = ["| column | type | meaning |", "|---|---|---|"]
    for column in COLUMNS:
        lines.append(f"| `{column.name}` | `{column.sql}` | {column.meaning} |")
        if not isinstance(column.type, str):
            lines += [f"| `{column.name}.{field.name}` | `{field.sql}` | {field.meaning} |" for field in column.type]
    return "\n".join(lines)
