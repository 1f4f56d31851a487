"""The port to the clients of one kind of store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from lakehouse_cdc.model.place import Address, Storage

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from lakehouse_cdc.lake.stores.objects import Objects

ATTEMPTS = 5
PATIENCE = {"connect_timeout": "5s", "timeout": "60s", "max_retries": str(ATTEMPTS), "retry_timeout": "60s"}
"""Options of deltalake's for any store."""


class Clients(Protocol):
    """Of the bucket that an address is in. A client has threads, which a fork does not take along."""

    def file_system(self, place: Address, storage: Storage) -> FileSystem:
        """pyarrow's, which calls a place by `Address.path`."""

    def table(self, place: Address, storage: Storage) -> tuple[str, Mapping[str, str]]:
        """The URL and the options by which deltalake opens a table."""

    def objects(self, place: Address, storage: Storage) -> Objects | None:
        """What puts whole objects, and on a condition; None where pyarrow puts them whole, and Hadoop on a condition.

        Raises ModuleNotFoundError where the library for it is not installed.
        """


def is_plain(storage: Storage) -> bool:
    """Whether the store is asked without TLS."""
    return storage.endpoint.startswith("http:")
