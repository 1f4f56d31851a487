"""Which place a location is: a folder by its path, or a prefix of a bucket by its URL."""

from __future__ import annotations

import os
from pathlib import Path

from lakehouse_cdc.lake.files.bucket import Bucket
from lakehouse_cdc.lake.files.folder import Folder
from lakehouse_cdc.lake.files.port import Files
from lakehouse_cdc.model.place import as_hadoop, is_url

Location = str | os.PathLike[str]


def files_at(location: Location) -> Files:
    """The files of a location; that of a folder may be written as Spark writes it, `file:/path`.

    Nothing is asked of the place. How a bucket is reached is said before (see `file_systems.reach`).
    """
    text = os.fspath(location)
    return Bucket(as_hadoop(text)) if is_url(text) else Folder(Path(text.removeprefix("file:")))


def parted(location: Location) -> tuple[Files, str]:
    """The place that a location is in, and the location's name there."""
    text = os.fspath(location)
    if not is_url(text):
        path = Path(text.removeprefix("file:"))
        return Folder(path.parent), path.name
    above, _, name = as_hadoop(text).rpartition("/")
    return Bucket(above), name
