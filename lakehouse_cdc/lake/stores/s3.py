"""S3, and stores that speak its language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakehouse_cdc.lake.stores.port import ATTEMPTS, PATIENCE, is_plain
from lakehouse_cdc.model.place import Address, Storage

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_CONNECT, _REQUEST = 5.0, 20.0  # seconds


def file_system(place: Address, storage: Storage) -> FileSystem:
    """See `port.Clients`. With an endpoint of its own a bucket is a part of the path, not of the host's name.

    Without a region, and without such an endpoint, S3 is asked which it is.
    """
    import pyarrow as pa
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    scheme, _, server = storage.endpoint.rpartition("://")
    region = storage.region or ("us-east-1" if server else resolve_s3_region(place.bucket))
    puts_at_once = int(pa.__version__.split(".")[0]) >= 21  # before, each put is three requests
    one_request = {"allow_delayed_open": True} if puts_at_once else {}
    return S3FileSystem(
        access_key=storage.access_key or None, secret_key=storage.secret_key or None, role_arn=storage.role_arn or None,
        region=region, scheme=scheme or "https", endpoint_override=server or None, **one_request,
        connect_timeout=_CONNECT, request_timeout=_REQUEST, retry_strategy=AwsStandardS3RetryStrategy(ATTEMPTS),
    )  # fmt: skip


def table(place: Address, storage: Storage) -> tuple[str, Mapping[str, str]]:
    """See `port.Clients`."""
    given = {
        "AWS_ENDPOINT_URL": storage.endpoint,
        "AWS_ALLOW_HTTP": "true" if is_plain(storage) else "",
        "AWS_REGION": storage.region or ("us-east-1" if storage.endpoint else ""),
        "AWS_ACCESS_KEY_ID": storage.access_key,
        "AWS_SECRET_ACCESS_KEY": storage.secret_key,
        "AWS_IAM_ROLE_ARN": storage.role_arn,
        **PATIENCE,
    }
    return f"s3a://{place.path}", {name: value for name, value in given.items() if value}


def objects(place: Address, storage: Storage) -> None:
    """See `port.Clients`."""
