"""The offset of the source: all its state but the schemas, as small JSON.

It says: everything up to binlog position (`file`, `pos`) of the log `identity` has been emitted for each table, for the
keys below that table's cursor. `{}` is the offset before the first one: no position, no table begun. Spark keeps every
later offset and gives the same (start, end) again after a crash, so whatever a batch emits is a function of the two.

A cursor is the list of a key's components. `[]` passes nothing, `done` passes everything, anything else passes the
keys below it: half-open, like all ranges here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.clock import Bounds
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.xa import Prepared

Cursor = list[Any]
Mode = Literal["first", "again", "never"]
_VERSION = 1


@dataclass(frozen=True)
class Identity:
    """Which log this is. RESET MASTER keeps uuid and file names, so the file's creation time belongs to it."""

    server_uuid: str
    file: str
    created: int  # seconds since 1970: header time of that file's FORMAT_DESCRIPTION event


@dataclass(frozen=True)
class TableState:
    """How far one table is.

    In mode `first`, events of keys beyond the cursor wait for their chunk. In mode `again` (the table was read before)
    every event is emitted, and the pass, which began at the seq `since`, ends with an x row. In mode `never` there is
    no snapshot: the table is done from birth. `floor` is the least floor of the table's reads, where it has one.
    `moved_from`: the cursor before the batch that ends here, where that moved it. Its chunks emitted nothing if they
    met DDL behind this offset; then the cursor is put back to there. Whether they did is not known, so events go on to
    pass up to where the cursor had been: `passed` (True: everywhere), until all up to there has been read again.
    `dropped`: there is no such table, though rows of one have been emitted. `quarantined`: why it is not followed. Such
    a table is done if and only if rows of it have been emitted.
    `repair` names stored keys (`model.key_repair`) that the batch which ends here reads again, at the seq `repaired`;
    that batch emitted nothing if it met DDL behind this offset. `repaired` is None where they are yet to be read.
    """

    schema: str
    cursor: Cursor = field(default_factory=list)
    done: bool = False
    mode: Mode = "first"
    since: int | None = None
    floor: Position | None = None
    moved_from: Cursor | None = None
    passed: Cursor | Literal[True] | None = None
    dropped: bool = False
    quarantined: str = ""
    repair: str = ""
    repaired: int | None = None

    @property
    def away(self) -> bool:
        """True of a table that is not followed."""
        return self.dropped or bool(self.quarantined)

    @property
    def announced(self) -> bool:
        """Whether rows of the table may have been emitted, so that its schema must stand in bronze."""
        return self.begun or self.mode == "again"

    def left(self, reason: str = "") -> TableState:
        """The state from where the table is gone, or, for that reason, is not followed."""
        done = self.announced
        return TableState(self.schema, done=done, since=self.since, dropped=not reason, quarantined=reason)

    @property
    def begun(self) -> bool:
        """True once any of its rows, or its schema, has been emitted."""
        return self.done or bool(self.cursor) or self.passed is not None

    @property
    def complete(self) -> bool:
        """True once all of it has been read, and is known to have met no DDL; a repeated pass has its x row by then."""
        return self.done and self.moved_from is None

    @property
    def owed(self) -> bool:
        """Whether there are keys that are yet to be read again."""
        return bool(self.repair) and self.repaired is None

    @property
    def unchecked(self) -> bool:
        """Whether it is not known yet if the reads of the batch that ends here met DDL."""
        return self.moved_from is not None or (bool(self.repair) and self.repaired is not None)

    @property
    def bound(self) -> Cursor | None:
        """The key below which events pass; None where all do, [] where none does."""
        if self.away:
            return []
        if self.done or self.mode == "again" or self.passed is True:
            return None
        return self.cursor if self.passed is None else self.passed

    def to_json(self) -> dict[str, Any]:
        """Only what differs from the default is written."""
        data: dict[str, Any] = {"schema": self.schema, "cursor": self.cursor, "done": self.done}
        if self.mode != "first":
            data["mode"] = self.mode
        if self.since is not None:
            data["since"] = str(self.since)  # more digits than a JSON number keeps
        if self.floor is not None:
            data["floor"] = [self.floor.file, self.floor.pos]
        if self.moved_from is not None:
            data["moved_from"] = self.moved_from
        if self.passed is not None:
            data["passed"] = self.passed
        if self.dropped:
            data["dropped"] = True
        if self.quarantined:
            data["quarantined"] = self.quarantined
        if self.repair:
            data["repair"] = self.repair
        if self.repaired is not None:
            data["repaired"] = str(self.repaired)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableState:
        """The inverse of `to_json`."""
        floor = data.get("floor")
        return cls(
            schema=data["schema"],
            cursor=list(data["cursor"]),
            done=data["done"],
            mode=data.get("mode", "first"),
            since=int(data["since"]) if "since" in data else None,
            floor=Position(*floor) if floor else None,
            moved_from=data.get("moved_from"),
            passed=data.get("passed"),
            dropped=data.get("dropped", False),
            quarantined=data.get("quarantined", ""),
            repair=data.get("repair", ""),
            repaired=int(data["repaired"]) if "repaired" in data else None,
        )


@dataclass(frozen=True)
class Offset:
    """A committed offset other than `{}`.

    `floor` is a position at or before (`file`, `pos`) of which the driver knows that every transaction up to it is
    committed and visible. `gtid_set` are the transactions up to the position, `last_gtid` and `commit_ts`
    (microseconds since 1970) those of the last transaction, for the snapshot rows that carry this position. `prepared`
    are the XA transactions that a reader of what lies behind the floor does not find by itself (see `model.xa`).
    `ddl`: the effects of the statement that the position stands behind, where that is a DDL on captured tables, and of
    the statements in the batch that were logged as text. `references` names what leads to captured tables from the
    position on (see `sql.references`), once that has been asked for. `texts`: how many statements logged as text
    have been passed over, and how many have had tables read again.
    `bounds` is what is known of when the transactions around the position were logged (see `model.clock`).
    """

    epoch: int
    identity: Identity
    position: Position
    floor: Position
    gtid_set: str = ""
    last_gtid: str = ""
    commit_ts: int = 0
    tables: Mapping[str, TableState] = field(default_factory=dict)
    ddl: tuple[Effect, ...] = ()
    prepared: tuple[Prepared, ...] = ()
    bounds: Bounds = field(default_factory=Bounds)
    references: str = ""
    texts: tuple[int, int] = (0, 0)

    def gtids(self) -> GtidSet:
        """`gtid_set`, parsed."""
        return GtidSet.parse(self.gtid_set)

    @property
    def first_seq(self) -> int:
        """The first seq at the position: whatever is read there or later is not below it."""
        return Seq(self.epoch, self.position.number, self.position.pos, Rank.EVENT, 0).pack()

    @property
    def there(self) -> dict[str, TableState]:
        """The tables that are followed."""
        return {name: state for name, state in self.tables.items() if not state.away}

    @property
    def emitting(self) -> list[TableState]:
        """Those of them of which rows may have been emitted."""
        return [state for state in self.there.values() if state.announced]

    @property
    def reading(self) -> dict[str, int]:
        """The tables of which rows are out, but not yet what they held at one position, each since which seq."""
        reading = {name: state for name, state in self.there.items() if state.announced and not state.complete}
        return {name: state.since or 0 for name, state in reading.items()}

    @property
    def quarantined(self) -> dict[str, str]:
        """The tables that are quarantined, and why."""
        return {name: state.quarantined for name, state in self.tables.items() if state.quarantined}

    def with_table(self, name: str, state: TableState) -> Offset:
        """A copy in which one table stands elsewhere."""
        return replace(self, tables={**self.tables, name: state})

    def to_json(self) -> dict[str, Any]:
        """The dict that Spark stores."""
        ddl = {"ddl": [effect.to_json() for effect in self.ddl]} if self.ddl else {}
        xa = {"prepared": [p.to_json() for p in self.prepared]} if self.prepared else {}
        text: dict[str, Any] = {"references": self.references} if self.references else {}
        text |= {"texts": list(self.texts)} if any(self.texts) else {}
        return {
            "version": _VERSION,
            "epoch": self.epoch,
            "server_uuid": self.identity.server_uuid,
            "created": self.identity.created,
            "file": self.position.file,
            "pos": self.position.pos,
            "gtid": self.gtid_set,
            "last_gtid": self.last_gtid,
            "commit_ts": self.commit_ts,
            **({"bounds": [self.bounds.after, self.bounds.by]} if self.bounds.by else {}),
            "floor": [self.floor.file, self.floor.pos],
            "tables": {name: state.to_json() for name, state in sorted(self.tables.items())},
            **xa,
            **ddl,
            **text,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offset | None:
        """The inverse of `to_json`; None for the empty offset. Raises DefiniteError for another version's."""
        if not data:
            return None
        if data.get("version") != _VERSION:
            raise codes.OFFSET_UNREADABLE.error(
                f"the checkpoint holds an offset of version {data.get('version')!r}, this source writes {_VERSION}",
                hint="use the release that wrote it, or start with a new checkpoint",
            )
        position = Position(data["file"], data["pos"])
        texts = data.get("texts", (0, 0))
        return cls(
            epoch=data["epoch"],
            identity=Identity(data["server_uuid"], position.file, data["created"]),
            position=position,
            floor=Position(*data["floor"]),
            gtid_set=data["gtid"],
            last_gtid=data["last_gtid"],
            commit_ts=data["commit_ts"],
            tables={name: TableState.from_json(state) for name, state in data["tables"].items()},
            ddl=tuple(Effect(*effect) for effect in data.get("ddl", [])),
            prepared=tuple(map(Prepared.from_json, data.get("prepared", []))),
            bounds=Bounds(*data.get("bounds", ())),
            references=data.get("references", ""),
            texts=(int(texts[0]), int(texts[1])),
        )
