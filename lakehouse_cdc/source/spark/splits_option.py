"""The splits of a batch that was planned elsewhere, as the option `splits` of a batch read."""

from __future__ import annotations

import pickle
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from lakehouse_cdc.options.declaration import declared_in
from lakehouse_cdc.options.source import Places

SPLITS = next(option.spark for option in declared_in(Places) if option.path == "splits")


def as_option(splits: Sequence[Any]) -> str:
    """The splits as text."""
    return b64encode(zlib.compress(pickle.dumps(list(splits)))).decode("ascii")


def of_option(text: str) -> list[Any]:
    """The inverse."""
    splits: list[Any] = pickle.loads(zlib.decompress(b64decode(text)))
    return splits
