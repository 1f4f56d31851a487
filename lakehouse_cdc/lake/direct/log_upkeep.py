"""Checkpoints of a table's log, and the end of its old commits.

deltalake makes a checkpoint of a table that it has opened. In a folder here it looks at every file of the log to open
it: a second for some hundred thousand commits. So it is given a folder that has of the log only its last checkpoint and
the commits since, as links, which is the same table; the checkpoint that it makes there is then moved to the log. What
is not known to be a whole beginning of the log that way (another kind of checkpoint, none yet) is opened where it is.

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

from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.log_actions import POINTER, checkpoints_among, last_checkpoint, name_of
from lakehouse_cdc.lake.log_files import MAKING, FolderLog
from lakehouse_cdc.lake.opened import opened
from lakehouse_cdc.model.place import is_url

RETENTION = "interval 7 days"  # of the log of a table that deltalake commits to: as long as files are kept
MOST = 5_000  # commits of such a table: deltalake looks at all of them for each, which takes 20 ms
_SUM_OF_POINTER = f".{POINTER}.crc"
_CHECKPOINT = "checkpoint.parquet"
_FAR = 1_000  # commits since the last checkpoint; more of them are not linked
_OF_VERSION = re.compile(r"^\.?(\d{20})\.")  # with the sums that Hadoop keeps beside files


def make_checkpoint(folder: str, version: int) -> None:
    """Make one of that version, which is the newest. Raises OSError and deltalake's errors."""
    if is_url(folder):  # a store lists a log from its last checkpoint on
        opened(folder).create_checkpoint()
        return
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
        shutil.copyfile(os.path.join(log, POINTER), os.path.join(part, POINTER))
        names = [name_of(last, _CHECKPOINT), *(name_of(each, "json") for each in range(last, version + 1))]
        for name in names:
            os.link(os.path.join(log, name), os.path.join(part, name))
        opened(place).create_checkpoint()
        made = name_of(version, _CHECKPOINT)
        os.replace(os.path.join(part, made), os.path.join(log, made))
        os.replace(os.path.join(part, POINTER), os.path.join(log, POINTER))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _last_usual(log: str) -> int | None:
    """The version of the last checkpoint, if that is one file."""
    version = last_checkpoint(FolderLog(log))
    if version is None:
        return None
    with open(os.path.join(log, POINTER), encoding="utf-8") as file:
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
