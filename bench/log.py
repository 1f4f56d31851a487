"""What commits of a Delta table cost, as its log says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.lake.tables import detail
from lakehouse_cdc.model.table_layout import Table


@dataclass(frozen=True)
class Cost:
    """What a range of commits wrote and took away, in bytes and files.

    `written` are new data files and deletion vectors, `removed` data files that are no longer there, not those that
    only got a deletion vector. `touched` files held a row that changed, or were put together with others.
    """

    written: int
    removed: int
    touched: int


def cost(table: Table, first: int, last: int) -> Cost:
    """That of the versions (first, last] of a local table."""
    written = removed = touched = 0
    for version in range(first + 1, last + 1):
        actions = list(_actions(table, version))
        adds = [action["add"] for action in actions if "add" in action]
        removes = {action["remove"]["path"]: action["remove"] for action in actions if "remove" in action}
        added = {add["path"] for add in adds}
        written += sum(add["size"] for add in adds if add["path"] not in removes)
        written += sum((add.get("deletionVector") or {}).get("sizeInBytes", 0) for add in adds)
        removed += sum(remove.get("size", 0) for path, remove in removes.items() if path not in added)
        touched += len(removes)
    return Cost(written, removed, touched)


def in_range(table: Table, version: int, column: str, low: int, high: int) -> int:
    """How many files of a version may hold values of a column between two, as their statistics say."""
    files: dict[str, tuple[int, int]] = {}
    physical = column
    # of a file that got a deletion vector a commit says both that it goes and that it comes
    for action in (a for v in range(version + 1) for a in sorted(_actions(table, v), key=lambda one: "add" in one)):
        if "metaData" in action:
            fields = json.loads(action["metaData"]["schemaString"])["fields"]
            names = {field["name"]: field["metadata"] for field in fields}
            physical = names[column].get("delta.columnMapping.physicalName", column)
        elif "add" in action:
            said = json.loads(action["add"]["stats"])
            files[action["add"]["path"]] = (said["minValues"][physical], said["maxValues"][physical])
        elif "remove" in action:
            files.pop(action["remove"]["path"], None)
    return sum(1 for least, greatest in files.values() if least <= high and greatest >= low)


def size(spark: SparkSession, table: Table) -> tuple[int, int]:
    """The table's bytes and its number of files."""
    found = detail(spark, table)
    return int(found["sizeInBytes"]), int(found["numFiles"])


def _actions(table: Table, version: int) -> Iterator[dict[str, Any]]:
    assert table.path is not None
    with open(Path(table.path) / "_delta_log" / f"{version:020d}.json", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
