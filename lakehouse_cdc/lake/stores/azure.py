"""Azure's store, by an account's key, or as the environment says (a service principal, a workload, an identity).

An endpoint of its own has an emulator such as Azurite alone; the account is then the first part of the path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.lake.stores.objects import Objects
from lakehouse_cdc.lake.stores.port import PATIENCE, is_plain
from lakehouse_cdc.model.place import Address, Storage

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def file_system(place: Address, storage: Storage) -> FileSystem:
    """See `port.Clients`."""
    from pyarrow.fs import AzureFileSystem

    name, _, rest = place.account.partition(".")
    scheme, _, server = storage.endpoint.rpartition("://")
    blob = server or f".{_of_blobs(rest)}"
    return AzureFileSystem(
        name, account_key=storage.account_key or None, blob_storage_authority=blob,
        dfs_storage_authority=server or f".{rest}", blob_storage_scheme=scheme or "https",
        dfs_storage_scheme=scheme or "https",
    )  # fmt: skip


def table(place: Address, storage: Storage) -> tuple[str, Mapping[str, str]]:
    """See `port.Clients`. deltalake knows hosts of Azure's own alone, so the URL has the container's name."""
    return f"az://{place.path}", {**_options(place, storage), **PATIENCE}


def objects(place: Address, storage: Storage) -> Objects:
    """See `port.Clients`. pyarrow puts an empty object first, and then the whole one in its place."""
    from obstore.store import AzureStore

    return Objects(
        lambda **how: AzureStore(place.bucket, config=_config(place, storage), **how), plain=is_plain(storage)
    )


def _options(place: Address, storage: Storage) -> dict[str, str]:
    name, _, rest = place.account.partition(".")
    given = {
        "azure_storage_account_name": name,
        "azure_storage_account_key": storage.account_key,
        "azure_storage_endpoint": f"{storage.endpoint}/{name}"
        if storage.endpoint
        else f"https://{name}.{_of_blobs(rest)}",
        "azure_allow_http": "true" if is_plain(storage) else "",
    }
    return {key: value for key, value in given.items() if value}


def _config(place: Address, storage: Storage) -> Any:
    """The same for obstore, which has what all stores know apart from what Azure's do."""
    return {key: value for key, value in _options(place, storage).items() if key != "azure_allow_http"}


def _of_blobs(host: str) -> str:
    """The host of an account has two names, one for each of its protocols."""
    return host.replace("dfs.", "blob.", 1)
