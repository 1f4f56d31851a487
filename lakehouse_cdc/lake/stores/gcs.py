"""Google's store, as the environment says who asks it. An endpoint of its own has an emulator, which asks nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.stores.objects import Objects
from lakehouse_cdc.lake.stores.port import PATIENCE, is_plain
from lakehouse_cdc.model.place import Address, Storage

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_TRIED = timedelta(seconds=60)


def file_system(place: Address, storage: Storage) -> FileSystem:
    """See `port.Clients`."""
    from pyarrow.fs import GcsFileSystem

    scheme, _, server = storage.endpoint.rpartition("://")
    return GcsFileSystem(
        anonymous=bool(server), scheme=scheme or "https", endpoint_override=server or None, retry_time_limit=_TRIED
    )


def table(place: Address, storage: Storage) -> tuple[str, Mapping[str, str]]:
    """See `port.Clients`."""
    return f"gs://{place.path}", {**_options(storage), **PATIENCE}


def objects(place: Address, storage: Storage) -> Objects:
    """See `port.Clients`."""
    from obstore.store import GCSStore

    config: Any = _options(storage)
    return Objects(lambda **how: GCSStore(place.bucket, config=config, **how), plain=is_plain(storage))


def _options(storage: Storage) -> dict[str, str]:
    if not storage.endpoint:
        return {}
    nobody = {"gcs_base_url": storage.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
    return {"google_service_account_key": json.dumps({**nobody, "private_key_id": ""})}
