"""A table as deltalake (delta-rs) opens it: its state, whatever features it has.

The library is imported where it is first used, as `lake.direct.rust_table` does, and says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.file_systems import storage_of
from lakehouse_cdc.lake.table_state import State
from lakehouse_cdc.model.place import Storage, is_url

if TYPE_CHECKING:
    from deltalake import DeltaTable


_PATIENCE = {"connect_timeout": "5s", "timeout": "60s", "max_retries": "5", "retry_timeout": "60s"}


def opened(path: str, version: int | None = None) -> DeltaTable:
    """That version, or the newest, for a path that `bare.is_openable_path` takes. Raises deltalake's errors."""
    from deltalake import DeltaTable

    if is_url(path):
        return DeltaTable(path, version, storage_options=_options(storage_of(path)))
    return DeltaTable(Path(path).as_uri(), version)


def _options(storage: Storage) -> dict[str, str]:
    """The options by which deltalake reaches a bucket; without one it asks the environment."""
    given = {
        "AWS_ENDPOINT_URL": storage.endpoint,
        "AWS_ALLOW_HTTP": "true" if storage.endpoint.startswith("http:") else "",
        "AWS_REGION": storage.region or ("us-east-1" if storage.endpoint else ""),
        "AWS_ACCESS_KEY_ID": storage.access_key,
        "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        "AWS_IAM_ROLE_ARN": storage.role_arn,
        **_PATIENCE,
    }
    return {name: value for name, value in given.items() if value}


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
