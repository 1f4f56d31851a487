"""Checkpoints of a table's log, and the end of its old commits, in a folder here.

deltalake makes a checkpoint of a table that it has opened, and it looks at every file of the log to open it: a second
for some hundred thousand commits. So it is given a folder that has of the log only its last checkpoint and the commits
since, as links, which is the same table; the checkpoint that it makes there is then moved to the log. What is not known
to be a whole beginning of the log that way (another kind of checkpoint, none yet) is opened where it is.

What ends: commits that are older than `delta.logRetentionDuration`, by deltalake; and of a table that deltalake commits
to, which looks at all of the log each time, all but the newest `MOST`, unless the table was given a duration of its
own. Only commits before a checkpoint that stays are deleted (protocol, "Metadata Cleanup"), the oldest first: after a
crash in between the rest has no gap.

Guards: tests/lake/test_log_upkeep.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress

from lakehouse_cdc.lake.checksum import MAKING
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.log_actions import checkpoints_among, last_checkpoint, log_file
from lakehouse_cdc.lake.opened import opened

RETENTION = "interval 7 days"  # of the log of a table that deltalake commits to: as long as files are kept
MOST = 5_000  # commits of such a table: deltalake looks at all of them for each, which takes 20 ms
_POINTER, _SUM_OF_POINTER = "_last_checkpoint", "._last_checkpoint.crc"
_FAR = 1_000  # commits since the last checkpoint; more of them are not linked
_OF_VERSION = re.compile(r"^\.?(\d{20})\.")  # with the sums that Hadoop keeps beside files


def make_checkpoint(folder: str, version: int) -> None:
    """Make one of that version, which is the newest. Raises OSError and deltalake's errors."""
    log = os.path.join(folder, LOG)
    with suppress(FileNotFoundError):  # the file is written in place, and its sum would be wrong
        os.unlink(os.path.join(log, _SUM_OF_POINTER))
    last = _last_usual(log)
    if last is None or version - last > _FAR:
        opened(folder).create_checkpoint()
        return
    place = tempfile.mkdtemp(dir=folder, prefix=MAKING)
    try:
        part = os.path.join(place, LOG)
        os.mkdir(part)
        shutil.copyfile(os.path.join(log, _POINTER), os.path.join(part, _POINTER))
        os.link(log_file(log, last, "checkpoint.parquet"), log_file(part, last, "checkpoint.parquet"))
        for each in range(last, version + 1):
            os.link(log_file(log, each, "json"), log_file(part, each, "json"))
        opened(place).create_checkpoint()
        os.replace(log_file(part, version, "checkpoint.parquet"), log_file(log, version, "checkpoint.parquet"))
        os.replace(os.path.join(part, _POINTER), os.path.join(log, _POINTER))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _last_usual(log: str) -> int | None:
    """The version of the last checkpoint, if that is one file."""
    version = last_checkpoint(log)
    if version is None:
        return None
    with open(os.path.join(log, _POINTER), encoding="utf-8") as file:
        said = json.load(file)
    return None if said.get("parts") or said.get("v2Checkpoint") else version


def delete_all_but(folder: str, most: int, newest: int) -> None:
    """Delete the commits before the last checkpoint that has so many commits, or more, after it up to the newest."""
    log = os.path.join(folder, LOG)
    names = sorted(os.listdir(log), key=lambda name: name.lstrip("."))
    first = max((version for version in checkpoints_among(names) if version <= newest - most), default=0)
    for name in names:
        if (match := _OF_VERSION.match(name)) and int(match[1]) < first:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(log, name))
