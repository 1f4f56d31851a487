"""The offset of the source: all its state but the schemas, as small JSON.

It says: everything up to binlog position (`file`, `pos`) of the log `identity` has been emitted for each table, for the
keys below that table's cursor. `{}` is the offset before the first one: no position, no table begun. Spark keeps every
later offset and gives the same (start, end) again after a crash, so whatever a batch emits is a function of the two.

The states of the tables are in `model.table_state`; which follows which, in `model.state_machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.clock import Bounds
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import Rank, Seq, unpack
from lakehouse_cdc.model.table_state import Quarantined, TableState
from lakehouse_cdc.model.table_state_json import from_json, to_json
from lakehouse_cdc.model.xa import Prepared

LONGEST_TURN = 18  # an event's header has 19 bytes (MySQL internals, "Binlog Event Header")
_VERSION = 1
OF_STRETCHES = 2  # the version of an offset that names the ends of stretches (see `source.state.offset_codec`)


@dataclass(frozen=True)
class Identity:
    """Which log this is. RESET MASTER keeps uuid and file names, so the file's creation time belongs to it."""

    server_uuid: str
    file: str
    created: int  # seconds since 1970: header time of that file's FORMAT_DESCRIPTION event


class LaterStart(NamedTuple):
    """A place after the stream's position, the transactions up to it, and the tables that begin there.

    Of each table the id of its schema there; '' of one that is created after it.
    """

    position: Position
    gtid_set: str
    tables: Mapping[str, str]


@dataclass(frozen=True)
class Offset:
    """A committed offset other than `{}`.

    `floor` is a position at or before (`file`, `pos`) of which the driver knows that every transaction up to it is
    committed and visible. `gtid_set` are the transactions up to the position, `last_gtid` and `commit_ts`
    (microseconds since 1970) those of the last transaction, for the snapshot rows that carry this position. `prepared`
    are the XA transactions that a reader of what is after the floor does not find by itself (see `model.xa`).
    `ddl`: the effects of the statement that the position is after, where that is a DDL on captured tables, and of
    the statements in the batch that were logged as text. `references` names what leads to captured tables from the
    position on (see `sql.references`), once that has been asked for. `texts`: how many statements logged as text
    have been passed over, and how many have had tables read again.
    `bounds` is what is known of when the transactions around the position were logged (see `model.clock`).
    `turn` counts how often tables began, were left or got another shape at this very position, with nothing of the log
    in between: what is emitted at each turn comes after what was emitted before (see `seq_position`). `settings` are
    digests of configurations that hid columns which may be shown by now, and are not (`source.planning.reconfigured`).
    `between` are the ends of the stretches that its batch consists of, but the last (see `source.planning.stretches`).
    `unbroken` is the epoch since which the log was followed without a gap, from server to server (0: this one).
    `anonymous`: the last transaction has no GTID, and `gtid_set` does not say all.
    `starts` are the places at which tables begin that `tables` does not have yet (see `source.planning.later_starts`).
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
    turn: int = 0
    settings: tuple[str, ...] = ()
    between: tuple[Offset, ...] = ()
    unbroken: int = 0
    anonymous: bool = False
    starts: tuple[LaterStart, ...] = ()

    def follows(self, start: Offset) -> bool:
        """Whether it is `start` on another server (see `source.planning.server_change`), and nothing lies between."""
        return start.epoch < self.epoch and 0 < self.unbroken <= start.epoch

    def gtids(self) -> GtidSet:
        """`gtid_set`, parsed."""
        return GtidSet.parse(self.gtid_set)

    @property
    def seq_position(self) -> Position:
        """The position that seqs have which are made here.

        A turn is a byte further on. No event ends there: the shortest one takes `LONGEST_TURN` + 1 bytes.
        """
        return replace(self.position, pos=self.position.pos + self.turn)

    @property
    def first_seq(self) -> int:
        """The first seq at the position: whatever is read there or later is not below it."""
        return self._seq(Rank.EVENT, 0)

    def next_turn(self) -> Offset:
        """The same offset, of which what is emitted comes after all that was emitted at it.

        Raises DefiniteError where the position has no more turns.
        """
        if self.turn == LONGEST_TURN:
            raise codes.SEQ_OVERFLOW.error(
                f"tables were begun, left or configured otherwise {LONGEST_TURN} times at one position",
                where=str(self.position),
                hint="commit any transaction on the source, and run again",
            )
        return replace(self, turn=self.turn + 1)

    def _seq(self, rank: Rank, ordinal: int) -> int:
        return Seq(self.epoch, self.position.number, self.seq_position.pos, rank, ordinal).pack()

    @property
    def oldest_needed(self) -> Position:
        """Where the binlog begins that what comes next may still read: rows, windows of reads, and XA transactions."""
        return min([self.position, self.floor, *(p.begin for p in self.prepared if p.rows)])

    @property
    def captured(self) -> dict[str, TableState]:
        """The tables that are followed."""
        return {name: state for name, state in self.tables.items() if state.captured}

    @property
    def published(self) -> list[TableState]:
        """Those of them of which rows may have been emitted."""
        return [state for state in self.captured.values() if state.published]

    @property
    def reading(self) -> dict[str, int]:
        """The tables of which rows are out, but not yet what they held at one position, each since which seq."""
        reading = {name: state for name, state in self.captured.items() if state.published and not state.complete}
        return {name: state.since or 0 for name, state in reading.items()}

    @property
    def quarantined(self) -> dict[str, str]:
        """The tables that are quarantined, and why."""
        phases = {name: state.phase for name, state in self.tables.items()}
        return {name: phase.reason for name, phase in phases.items() if isinstance(phase, Quarantined)}

    def next_reading(self, state: TableState | None) -> int:
        """The seq of another reading of a table from the offset on: of the whole table, or of single keys.

        Readings are counted: one that began earlier may have read its last rows at this very position.
        """
        earlier = () if state is None else (state.since, state.repaired)
        last = max((unpack(seq or 0).ordinal for seq in earlier), default=0)
        return self._seq(Rank.READ, last + 1)

    def with_table(self, name: str, state: TableState | None) -> Offset:
        """A copy with another state of one table; without the table, where that is None."""
        others = self.tables
        if state is None:
            return replace(self, tables={other: table for other, table in others.items() if other != name})
        return replace(self, tables={**others, name: state})

    def to_json(self) -> dict[str, Any]:
        """The dict that Spark stores, but for `between`."""
        ddl = {"ddl": [effect.to_json() for effect in self.ddl]} if self.ddl else {}
        xa = {"prepared": [p.to_json() for p in self.prepared]} if self.prepared else {}
        text: dict[str, Any] = {"references": self.references} if self.references else {}
        text |= {"texts": list(self.texts)} if any(self.texts) else {}
        text |= {"turn": self.turn} if self.turn else {}
        text |= {"settings": list(self.settings)} if self.settings else {}
        text |= {"unbroken": self.unbroken} if self.unbroken else {}
        text |= {"anonymous": True} if self.anonymous else {}
        starts = [[at.file, at.pos, gtids, dict(sorted(tables.items()))] for at, gtids, tables in self.starts]
        text |= {"starts": starts} if starts else {}
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
            "tables": {name: to_json(state) for name, state in sorted(self.tables.items())},
            **xa,
            **ddl,
            **text,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Offset | None:
        """The inverse of `to_json`; None for the empty offset. Raises DefiniteError for a later version's."""
        if not data:
            return None
        if data.get("version") not in (_VERSION, OF_STRETCHES):
            raise codes.OFFSET_UNREADABLE.error(
                f"the checkpoint holds an offset of version {data.get('version')!r}, this source writes {_VERSION}",
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
            tables={name: from_json(state) for name, state in data["tables"].items()},
            ddl=tuple(Effect(*effect) for effect in data.get("ddl", [])),
            prepared=tuple(map(Prepared.from_json, data.get("prepared", []))),
            bounds=Bounds(*data.get("bounds", ())),
            references=data.get("references", ""),
            texts=(int(texts[0]), int(texts[1])),
            turn=data.get("turn", 0),
            settings=tuple(data.get("settings", ())),
            unbroken=data.get("unbroken", 0),
            anonymous=data.get("anonymous", False),
            starts=tuple(LaterStart(Position(file, pos), *more) for file, pos, *more in data.get("starts", [])),
        )
