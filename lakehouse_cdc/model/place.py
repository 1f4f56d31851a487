"""Where tables can lie: a folder of this machine, or a prefix of a bucket in S3.

`s3://bucket/prefix` and `s3a://bucket/prefix` are one and the same place: `s3a` is what Hadoop calls the file system by
which Spark reads and writes it, and every path that Spark or Delta is given has that scheme.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ELEMENT = r"[A-Za-z0-9_][A-Za-z0-9_.=-]*"  # no `.` or `..`, and nothing that a URL would have to encode
URL = rf"s3a?://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9](?:/{_ELEMENT})*/?"
_SCHEME = re.compile(r"s3a?://")


@dataclass(frozen=True)
class Storage:
    """How a bucket is reached; what is empty is as the environment has it, by the rules of AWS's SDK."""

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    role_arn: str = ""


def is_url(path: str | None) -> bool:
    """Whether a path is a place in an object store; paths of folders, and None, are not."""
    return path is not None and _SCHEME.match(path) is not None


def as_hadoop(url: str) -> str:
    """The place as Spark and Delta are given it: `s3a://bucket/prefix`, without a slash at the end."""
    return _SCHEME.sub("s3a://", url).rstrip("/")


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """The bucket, and what the names of all objects of the place begin with, without a slash at either end."""
    bucket, _, prefix = _SCHEME.sub("", url).partition("/")
    return bucket, prefix.strip("/")
