"""Where tables can lie: a folder of this machine, or a place in a store, by its URL.

`s3://bucket/prefix` and `s3a://bucket/prefix` are one and the same place: `s3a` is what Hadoop calls the file system by
which Spark reads and writes it, and every path that Spark or Delta is given has that scheme. Of Azure's URLs, `abfs`
and `abfss` are one place as well; both are reached by TLS, and stay as they are given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["s3", "abfs"]
_ELEMENT = r"[A-Za-z0-9_][A-Za-z0-9_.=-]*"  # no `.` or `..`, and nothing that a URL would have to encode
_ROOTS: dict[Kind, str] = {
    "s3": r"s3a?://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
    "abfs": r"abfss?://[a-z0-9](?:-?[a-z0-9]){2,62}@[a-z0-9]{3,24}\.dfs\.[a-z0-9]+(?:[.-][a-z0-9]+)*",
}
EXAMPLES: dict[Kind, str] = {
    "s3": "s3://bucket/prefix",
    "abfs": "abfss://container@account.dfs.core.windows.net/prefix",
}
URLS: dict[Kind, str] = {kind: rf"{root}(?:/{_ELEMENT})*/?" for kind, root in _ROOTS.items()}
URL = rf"(?:{'|'.join(URLS.values())})"
FILE_URL = rf"file://(?:/{_ELEMENT})+/?"
_SCHEME = re.compile(r"(s3a?|abfss?)://")
_KINDS: dict[str, Kind] = {"s3": "s3", "s3a": "s3", "abfs": "abfs", "abfss": "abfs"}


@dataclass(frozen=True)
class Storage:
    """How a store is reached; what is empty is as the environment has it, by the rules of the store's own clients."""

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    role_arn: str = ""
    account_key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Address:
    """A place of a store in its parts: `account` is the host of an account of Azure's, "" elsewhere."""

    kind: Kind
    bucket: str
    account: str
    prefix: str

    @property
    def path(self) -> str:
        """As clients call it that know the account by other means: the bucket, and what comes after it."""
        return "/".join(filter(None, (self.bucket, self.prefix)))


def is_url(path: str | None) -> bool:
    """Whether a path is a place in a store; paths of folders, and None, are not."""
    return path is not None and _SCHEME.match(path) is not None


def kind_of(url: str) -> Kind:
    """Of which kind the store of a place is."""
    return _KINDS[url.partition("://")[0]]


def as_hadoop(url: str) -> str:
    """The place as Spark and Delta are given it: `s3a` for `s3`, without a slash at the end."""
    return re.sub(r"^s3://", "s3a://", url).rstrip("/")


def as_folder(path: str) -> str:
    """The path of a folder, which may be given as `file:///path`."""
    return path.removeprefix("file://") if path.startswith("file:///") else path


def store_of(url: str) -> str:
    """The bucket of a place, or the container, as a URL that has one name whichever way the place is given."""
    scheme, _, rest = url.partition("://")
    return f"{_KINDS[scheme]}://{rest.partition('/')[0]}"


def address(url: str) -> Address:
    """The parts of a place's URL; the prefix has no slash at either end."""
    scheme, _, rest = url.partition("://")
    root, _, prefix = rest.partition("/")
    bucket, _, account = root.partition("@")
    return Address(_KINDS[scheme], bucket, account, prefix.strip("/"))
