"""A table as deltalake (delta-rs) opens it: its state, whatever features it has.

The library is imported where it is first used, as `lake.direct.rust_table` does, and says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.file_systems import storage_of
from lakehouse_cdc.lake.stores.choice import CLIENTS
from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.place import address, is_url

if TYPE_CHECKING:
    from deltalake import DeltaTable


def opened(path: str, version: int | None = None) -> DeltaTable:
    """That version, or the newest, for a path that `bare.is_openable_path` takes. Raises deltalake's errors."""
    from deltalake import DeltaTable

    if is_url(path):
        place = address(path)
        url, options = CLIENTS[place.kind].table(place, storage_of(path))
        return DeltaTable(url, version, storage_options=dict(options))
    return DeltaTable(Path(path).as_uri(), version)


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
