"""A table in a folder here as deltalake (delta-rs) opens it: its state, whatever features it has.

The library is imported where it is first used, as `lake.direct.rust_table` does, and says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.table_state import State

if TYPE_CHECKING:
    from deltalake import DeltaTable


def opened(path: str) -> DeltaTable:
    """The newest version, for a path that `bare.is_openable_path` takes. Raises deltalake's errors."""
    from deltalake import DeltaTable

    return DeltaTable(Path(path).as_uri())


def state_of(table: DeltaTable) -> State:
    """That of an open table."""
    protocol, metadata = table.protocol(), table.metadata()
    return State(
        str(metadata.id),
        int(table.version()),
        tuple(json.loads(table.schema().to_json())["fields"]),
        dict(metadata.configuration),
        tuple(metadata.partition_columns),
        frozenset(protocol.writer_features or ()),
    )
