"""A change table as Spark makes it, made without Spark: its first version, as the log has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakehouse_cdc.model.bronze_row import COLUMNS, PARTITION, STATISTICS, VARIANT, BronzeColumn
from lakehouse_cdc.model.table_layout import PIPELINE, Layout, Table

_NAMES = {"bigint": "long"}
FEATURES = ["appendOnly", "changeDataFeed", "invariants", "variantType"]


def _type(column: BronzeColumn) -> Any:
    if isinstance(column.type, str):
        return _NAMES.get(column.type, column.type)
    return {"type": "struct", "fields": [_field(one) for one in column.type]}


def _field(column: BronzeColumn) -> dict[str, Any]:
    return {"name": column.name, "type": _type(column), "nullable": True, "metadata": {}}


def change_table(folder: Path, **properties: str) -> Table:
    """An empty one in that folder; `properties` of Delta's, without their prefix."""
    table = Layout("tests", bronze="b", path=str(folder)).changes
    schema = {"type": "struct", "fields": [_field(column) for column in COLUMNS]}
    configuration = {
        PIPELINE: "tests", "delta.appendOnly": "true", "delta.enableChangeDataFeed": "true",
        "delta.dataSkippingStatsColumns": ",".join(STATISTICS),
        **{f"delta.{name}": value for name, value in properties.items()},
    }  # fmt: skip
    metadata = {
        "id": "an-id", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
        "partitionColumns": [PARTITION], "configuration": configuration, "createdTime": 1_700_000_000_000,
    }  # fmt: skip
    protocol = {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["variantType"], "writerFeatures": FEATURES,
    }  # fmt: skip
    assert any(column.type == VARIANT for column in COLUMNS)
    log = Path(str(table.path), "_delta_log")
    log.mkdir(parents=True)
    info = {"timestamp": 1_700_000_000_000, "operation": "CREATE TABLE", "operationParameters": {}}
    actions = ({"commitInfo": info}, {"metaData": metadata}, {"protocol": protocol})
    (log / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    return table
