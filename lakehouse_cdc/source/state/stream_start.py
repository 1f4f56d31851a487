"""What a checkpoint belongs to, and what its stream begins after: files beside it.

`tables.json` names the change table that the checkpoint belongs to, by the id that Delta gave it. `begin.json` exists
where the stream is the first of a new checkpoint, and its table held rows before: it names an offset (a file of its
own, see `state_store`) at which that table is. The stream then begins as after a gap in the log: with a new epoch,
in which every table of that offset is read again, so that rows which are gone since are deleted.

Both are written before Spark plans a batch. The end of the first batch names the offset that it begins after, so its
replay does not depend on `begin.json` any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse_cdc.lake.files.choice import files_at
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.source.state.state_store import SchemaStore

AFTER = "after"  # the key in the stored end of a first batch
_TABLES, _BEGIN = "tables.json", "begin.json"


class Beginning:
    """These files, in the schema folder `location`."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self._store = SchemaStore(location)

    @property
    def table(self) -> str | None:
        """The id of the change table, None where no file says it."""
        record = self._record(_TABLES)
        return None if record is None else str(record["bronze"])

    def belongs_to(self, table: str) -> None:
        """Name the change table; done before, it changes nothing."""
        if self.table != table:
            self._files.write(_TABLES, json.dumps({"bronze": table}))

    def begin_after(self, offset: Offset | None) -> None:
        """Have the next stream with a new checkpoint begin after that offset, or, None, without any."""
        if offset is None:
            self._files.delete(_BEGIN)
        else:
            self._files.write(_BEGIN, json.dumps({AFTER: self._store.put_offset(offset)}))

    @property
    def after(self) -> str | None:
        """The fingerprint of the offset that a new stream begins after; None for none."""
        record = self._record(_BEGIN)
        return None if record is None else str(record[AFTER])

    def before(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Offset | None:
        """The offset that the batch between two stored ones begins after, where it is such a first one."""
        return self._store.offset(end[AFTER]) if not start and end.get(AFTER) else None

    def _record(self, name: str) -> dict[str, Any] | None:
        text = self._files.read(name)
        return None if text is None else json.loads(text)
