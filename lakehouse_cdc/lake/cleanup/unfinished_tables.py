"""Folders of tables that a crash left before their first commit.

Delta makes the folder of a table and its log, writes version 0 under another name, and renames it: a process that is
killed in between leaves a folder with a log that has no version. Nothing was ever part of such a table, so it may be
removed. That must be done before the table is created: `CREATE TABLE IF NOT EXISTS` over such a folder creates nothing,
and reports nothing.

To remove it takes several steps, too, but after any of them what is left is again a log without a version, an empty
folder, or nothing. Only the process that holds the pipeline's lock may do it: another one could be creating the table.
"""

from __future__ import annotations

import os
import re
import shutil

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.model.table_layout import Table

LOG = "_delta_log"
# names in Delta's log that say that there is a version (protocol, "Delta Log Entries", "Checkpoints")
_VERSION = re.compile(r"^(\d{20}\.(json|checkpoint\..*)|_last_checkpoint|_sidecars)$")


def is_unfinished(folder: str) -> bool:
    """Whether the folder holds the log of a table that has no version, and nothing else."""
    if not os.path.isdir(folder) or os.listdir(folder) != [LOG]:
        return False
    return os.path.isdir(os.path.join(folder, LOG)) and not has_version(folder)


def has_version(folder: str) -> bool:
    """Whether the folder, which is one of this machine, holds the log of a table that has a version."""
    log = os.path.join(folder, LOG)
    if not os.path.isdir(log):
        return False
    with os.scandir(log) as entries:  # of which the first will nearly always do, and there may be very many
        return any(_VERSION.match(entry.name) for entry in entries)


def require_nothing_else(table: Table) -> None:
    """Raise DefiniteError where something that is no Delta table lies in the folder of a table that is not there."""
    folder = str(table.path)
    if is_unfinished(folder):
        return
    if os.path.exists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise not_a_table(str(table))


def not_a_table(where: str) -> CdcError:
    """The error for a place in which something else lies."""
    return codes.NOT_A_DELTA_TABLE.error(
        "something that is not a Delta table lies where the table would be",
        where=where,
        hint="move it away, or choose another path or schema under target",
    )


def remove_unfinished(folder: str) -> None:
    """Remove what `is_unfinished` recognizes; anything else stays as it is."""
    if is_unfinished(folder):
        shutil.rmtree(os.path.join(folder, LOG))
