"""Which clients reach a place, by its URL."""

from __future__ import annotations

from lakehouse_cdc.lake.stores import azure, s3
from lakehouse_cdc.lake.stores.port import Clients
from lakehouse_cdc.model.place import Kind

CLIENTS: dict[Kind, Clients] = {"s3": s3, "abfs": azure}
