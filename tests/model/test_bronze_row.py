"""The bronze row has one declaration, and what is made from it is what lies on disk since the first release."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakehouse_cdc.lake.direct import change_files
from lakehouse_cdc.model.bronze_arrow import ARROW, LINE, SHARED
from lakehouse_cdc.model.bronze_row import COLUMNS, FILES, PARTITION, POSITION, SCHEMA, STATISTICS, markdown

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"
ON_DISK = (
    "seq decimal(38,0), op string, source_table string, key variant, before variant, after variant, "
    "commit_ts timestamp, position struct<server_uuid: string, file: string, pos: bigint, gtid: string>, "
    "schema_id string"
)
WITH_VALUES_IN_COMMON = ["op", "source_table", "schema_id"]


def test_tables_on_disk_have_these_columns() -> None:
    assert SCHEMA == ON_DISK
    assert POSITION == "struct<server_uuid: string, file: string, pos: bigint, gtid: string>"
    assert PARTITION in [column.name for column in COLUMNS]
    assert STATISTICS == ("seq", "op", "commit_ts", "schema_id")


def test_batches_have_the_same_columns() -> None:
    assert ARROW.names == SHARED.names == [column.name for column in COLUMNS]
    assert ARROW.field("seq").type == pa.decimal128(38, 0)
    assert ARROW.field("commit_ts").type == pa.timestamp("us", "UTC")
    for name in ("key", "before", "after"):
        assert [field.name for field in ARROW.field(name).type] == ["value", "metadata"]
        assert not any(field.nullable for field in ARROW.field(name).type)
        assert pa.types.is_dictionary(SHARED.field(name).type.field("metadata").type)
    for name in WITH_VALUES_IN_COMMON:
        assert SHARED.field(name).type == pa.dictionary(pa.int32(), pa.string())
    assert [f"{field.name} string" if field.type == pa.string() else f"{field.name} bigint" for field in LINE] == (
        FILES.split(", ")
    )


def test_files_are_written_with_these_encodings() -> None:
    assert sorted(change_files._REPEATED) == sorted(
        [
            "op",
            "schema_id",
            "key.metadata",
            "before.metadata",
            "after.metadata",
            "position.server_uuid",
            "position.file",
            "position.gtid",
        ]
    )
    assert change_files._RISING == {"commit_ts": "DELTA_BINARY_PACKED", "position.pos": "DELTA_BINARY_PACKED"}
    assert change_files._BOUNDED == ["seq", "op", "commit_ts", "position.pos", "schema_id"]


def test_the_page_has_the_table() -> None:
    assert markdown() in PAGE.read_text()
