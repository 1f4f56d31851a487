"""The position of a table of the lakehouse: a place in the source's log, as each Delta commit carries it.

Bronze's commit of a batch carries the end of that batch, a transaction boundary up to which everything has been
emitted; silver's carries the point of the last bronze commit in it. So a table's version and the source's position
are tied together by the commit itself and cannot drift apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.clock import Bounds, Mark
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import last_at

_MARK = "lakehouse_cdc"
_STORED = {"source_point": "standing"}  # names of fields in the log of tables that exist


@dataclass(frozen=True)
class SourcePoint:
    """A position of the source. `gtid` is the set up to it, `commit_ts` microseconds since 1970 of the last commit.

    `after` and `by` are its `model.clock.Bounds`, `turn` and `unbroken` are those of its `model.offset.Offset`.
    """

    epoch: int
    server_uuid: str
    file: str
    pos: int
    gtid: str = ""
    commit_ts: int = 0
    after: int = 0
    by: int = 0
    turn: int = 0
    unbroken: int = 0

    @classmethod
    def of_offset(cls, offset: Mapping[str, Any]) -> SourcePoint:
        """The point of a source offset (see `model.offset`), other than `{}`."""
        try:
            after, by = offset.get("bounds") or (0, 0)
            return cls(
                epoch=int(offset["epoch"]),
                server_uuid=str(offset["server_uuid"]),
                file=str(offset["file"]),
                pos=int(offset["pos"]),
                gtid=str(offset.get("gtid") or ""),
                commit_ts=int(offset.get("commit_ts") or 0),
                after=int(after),
                by=int(by),
                turn=int(offset.get("turn") or 0),
                unbroken=int(offset.get("unbroken") or 0),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise codes.OFFSET_UNREADABLE.error(f"the checkpoint's offset holds no position: {error}") from error

    @property
    def seq(self) -> int:
        """The last seq at the position: all rows that have been emitted by then, and none later, are up to it."""
        return last_at(self.epoch, Position(self.file, self.pos + self.turn))

    def joins(self, epoch: int, later: int) -> bool:
        """Whether the log was followed without a gap from one epoch to a later one, as far as is known here."""
        return epoch == later or 0 < self.unbroken <= epoch

    @property
    def mark(self) -> Mark:
        """What is known of when the transactions around the position were logged."""
        return Mark(self.seq, Bounds(self.after, self.by))

    @property
    def time(self) -> int:
        """`commit_ts`, or the time that is known in its place where no clock could have said that yet."""
        return self.mark.bounds.time(self.commit_ts)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `turn` and `unbroken` only where they are set."""
        return {name: value for name, value in asdict(self).items() if value or name not in ("turn", "unbroken")}


@dataclass(frozen=True)
class CommitNote:
    """What one Delta commit says of itself, in its user metadata.

    `query` and `batch` name the micro-batch that wrote it; `bronze_version` is the last bronze commit that it holds
    (None in bronze itself).

    In bronze, `reading` are the tables that are being read there, each with the seq since which it is not exact (None
    where it is not said). In a silver table, `through` is a seq: its current rows are what bronze's rows up to there
    make, no less and no more (None during a change of the schema); `frozen` is what it keeps its shape by, if it does;
    `part` is the source table that it is about, of a table that several go into. `redacted`: versions before this one
    hold values that have been hidden since. `replaced`: this version replaced the table, and those before it were made
    with that transform.
    """

    pipeline: str
    query: str
    batch: int
    source_point: SourcePoint
    bronze_version: int | None = None
    reading: Mapping[str, int] | None = None
    through: int | None = None
    frozen: str | None = None
    part: str | None = None
    redacted: bool | None = None
    replaced: str | None = None
    topics: Mapping[str, Any] | None = None

    @property
    def in_order(self) -> bool:
        """Whether what comes after the commit is newer, in the order of seq; partitions of topics are not ordered."""
        return self.topics is None or sum(map(len, self.topics["marks"].values())) <= 1

    def text(self) -> str:
        """As it is stored."""
        fields = {**asdict(self), "source_point": self.source_point.to_json()}
        given = {_STORED.get(name, name): value for name, value in fields.items() if value is not None}
        return json.dumps({_MARK: given}, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str | None) -> CommitNote | None:
        """The inverse; None for the commit of anybody else (an OPTIMIZE, a user's UPDATE)."""
        try:
            data = dict(json.loads(text or "")[_MARK])
            point = SourcePoint(**data.pop(_STORED["source_point"]))
            return cls(**data, source_point=point)
        except (ValueError, KeyError, TypeError):
            return None
