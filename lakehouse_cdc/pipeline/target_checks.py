"""What must be true of the places that a pipeline writes to, before it does: no session is started.

Tables in a catalog, or in an object store, are looked at by the first run, before it reads anything. Checkpoints in an
object store are looked at here, as those in a folder are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.cleanup.unfinished_tables import LOG
from lakehouse_cdc.lake.file_systems import HOW_TO_REACH
from lakehouse_cdc.lake.files.choice import Location, files_at
from lakehouse_cdc.lake.files.folder import existing
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.model.table_layout import PIPELINE, Layout, Table
from lakehouse_cdc.mysql.preflight.settings import Finding

_ROOM = 2  # free bytes for each byte of the source: bronze and silver are smaller, but there are two of them
_FIRST = f"{0:020}.json"


def checks(layout: Layout, state: Location, source_tables: Iterable[str], size: int) -> Iterator[Finding]:
    """Look at the places of tables and of checkpoints (`state`); `size` is about how many bytes are to be read."""
    if layout.silver is not None and layout.silver.lower() == layout.bronze.lower():
        yield Finding(
            "target.silver", "warning", "bronze and silver are one schema, in which names of tables may meet",
            "choose another schema under target.silver before the first run",
        )  # fmt: skip
    if layout.path is None:
        return
    if is_url(layout.path):
        unwritable = [*_unwritable("target.checkpoints", state)]
        yield from unwritable
        if is_url(os.fspath(state)) and not unwritable:
            yield Finding("target.checkpoints", "ok", f"{os.fspath(state)} can be written")
        return
    path = Path(layout.path)
    places: dict[str, Location] = {"target.path": path, "target.checkpoints": state}
    unwritable = [finding for name, place in places.items() for finding in _unwritable(name, place)]
    yield from unwritable
    if unwritable:
        return
    yield Finding("target.path", "ok", f"{path} can be written")
    free = shutil.disk_usage(existing(path)).free
    if size * _ROOM > free:
        yield Finding(
            "target.path", "warning",
            f"the tables have about {size / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free in {path}",
            "choose a folder with more room, or fewer tables",
        )  # fmt: skip
    tables = [layout.changes, layout.schemas]
    if layout.silver is not None:
        tables += [layout.ledger, *map(layout.silver_table, sorted(source_tables))]
    for table in dict.fromkeys(tables):
        yield from _foreign(table, layout.pipeline)


def _unwritable(name: str, place: Location) -> Iterator[Finding]:
    if why := files_at(place).refusal():
        in_bucket = is_url(os.fspath(place))
        code = codes.OBJECT_STORE_REFUSED if in_bucket else codes.TARGET_UNWRITABLE
        yield Finding(name, "error", why, HOW_TO_REACH if in_bucket else code.remedy, code)


def _foreign(table: Table, pipeline: str) -> Iterator[Finding]:
    """Whether something else lies where a table would be, or a table of another pipeline's."""
    assert table.path is not None, table
    if not os.path.exists(table.path) or (os.path.isdir(table.path) and not os.listdir(table.path)):
        return
    if not os.path.isdir(os.path.join(table.path, LOG)):
        code = codes.NOT_A_DELTA_TABLE
        yield Finding(table.path, "error", "this is not a Delta table, and lies where one would be", code.remedy, code)
        return
    owner = _owner(Path(table.path) / LOG / _FIRST, pipeline)
    if owner != pipeline:
        code = codes.TABLE_FOREIGN
        what = f"the table belongs to {'the pipeline ' + owner if owner else 'somebody else'}"
        yield Finding(table.path, "error", what, code.remedy, code)


def _owner(commit: Path, otherwise: str) -> str:
    """Whose the first commit says that the table is; a log that has forgotten it does not say otherwise."""
    if not commit.exists():
        return otherwise
    for line in commit.read_text(encoding="utf-8").splitlines():
        if '"metaData"' in line:
            return str(json.loads(line)["metaData"].get("configuration", {}).get(PIPELINE, ""))
    return ""
