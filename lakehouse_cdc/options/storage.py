"""`target.storage`: how the store of `target.path` is reached."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from lakehouse_cdc.model.place import Kind, Storage
from lakehouse_cdc.options.declaration import NEVER, NEXT_RUN, Keys, option
from lakehouse_cdc.options.kinds import JsonSchema, SecretReference, Text
from lakehouse_cdc.options.secrets import Secret

_KEYS = ("access_key", "secret_key")
_NONE: JsonSchema = {"properties": {key: {"maxLength": 0} for key in _KEYS}}
_ABSENT: JsonSchema = {"type": ["null", "string"], "maxLength": 0}
_BOTH: JsonSchema = {"required": [*_KEYS], "properties": {key: {"minLength": 1} for key in _KEYS}}


_OF: dict[Kind, tuple[str, ...]] = {
    "s3": ("endpoint", "region", *_KEYS, "role_arn"),
    "abfs": ("endpoint", "account_key"),
}


def _others(kind: Kind) -> list[str]:
    return sorted({*chain.from_iterable(_OF.values())} - {*_OF[kind]})


def only_of(kind: Kind) -> JsonSchema:
    """The section for such a store, or none."""
    return {"anyOf": [{"type": "null"}, {"properties": dict.fromkeys(_others(kind), _ABSENT)}]}


@dataclass(frozen=True, kw_only=True)
class StorageConfig(Keys):
    """The section. Without keys, they are those of the environment, by the rules of the store's own clients."""

    endpoint: str | None = option(
        Text(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?/?", "http://host:port or https://host"),
        "address of a store that is not AWS's, such as MinIO, where a bucket is the first part of the path; or of an"
        " emulator of Azure's",
        default=None, otherwise="the provider's own", changes=NEVER,
    )  # fmt: skip
    region: str | None = option(
        Text(r"[a-z0-9-]+", "a region, such as eu-central-1"), "S3: region of the bucket",
        default=None, otherwise="as the environment says", changes=NEXT_RUN,
    )  # fmt: skip
    access_key: Secret = option(
        SecretReference(), "S3: access key, by reference: `${env:NAME}`; with `secret_key`",
        default=Secret(""), otherwise="the environment's credentials", changes=NEXT_RUN,
    )  # fmt: skip
    secret_key: Secret = option(
        SecretReference(), "S3: secret key, by reference", default=Secret(""), otherwise="none", changes=NEXT_RUN
    )
    role_arn: str | None = option(
        Text(r"arn:[a-z-]+:iam::[0-9]{12}:role/\S+", "arn:aws:iam::123456789012:role/name"),
        "S3: role that is taken on with these credentials", default=None, otherwise="none", changes=NEXT_RUN,
    )  # fmt: skip

    account_key: Secret = option(
        SecretReference(), "Azure: a key of the storage account, by reference",
        default=Secret(""), otherwise="the environment's credentials", changes=NEXT_RUN,
    )  # fmt: skip

    json_rules: ClassVar = ({"anyOf": [_NONE, _BOTH]},)

    def not_of(self, kind: Kind) -> list[str]:
        """The keys that are given and say nothing of such a store."""
        return [name for name in _others(kind) if getattr(self, name)]

    def contradiction(self) -> str:
        if bool(self.access_key) != bool(self.secret_key):
            return "give both access_key and secret_key, or none for the environment's credentials"
        return ""

    def resolved(self) -> Storage:
        """With the values of its secrets. Raises ConfigError for one that cannot be read."""
        return Storage(
            endpoint=(self.endpoint or "").rstrip("/"),
            region=self.region or "",
            access_key=self.access_key.reveal(),
            secret_key=self.secret_key.reveal(),
            role_arn=self.role_arn or "",
            account_key=self.account_key.reveal(),
        )
