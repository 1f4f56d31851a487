"""What a silver table says of itself, in its own properties and in the notes of its commits.

What was applied to a table is kept with it, so that it cannot part from its rows: the schema that it is of, the seq of
the last change of the schema that it went through, and how far it is with the next (see `evolution`). Of a table that
several source tables go into each says so for its part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.silver.definition.column_mapping import Shape
from lakehouse_cdc.silver.definition.engine import ENGINE, SPARK
from lakehouse_cdc.silver.definition.form import Form, form_of
from lakehouse_cdc.silver.definition.transform import NOTHING, Transform
from lakehouse_cdc.silver.evolution.steps import Phase
from lakehouse_cdc.silver.tables.names import require_own

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader

SCHEMA_ID = "lakehouse_cdc.schema_id"
SCHEMA_SEQ = "lakehouse_cdc.schema_seq"
CHANGING = "lakehouse_cdc.schema_change"  # <seq of the change>:<its phase>
KEPT = "lakehouse_cdc.kept_columns"
FROZEN = "lakehouse_cdc.frozen"  # what a table keeps its shape by, and the seq of the last change for which it did
LEFT = "lakehouse_cdc.left_off"  # the seq at which the source's table was dropped, or quarantined; 0: followed again
QUARANTINED_BECAUSE = "lakehouse_cdc.quarantined"  # why no more of bronze is applied, and what was applied before
TRANSFORM = "lakehouse_cdc.transform"  # what it makes of the source's columns (see `transform`)
BASE = "lakehouse_cdc.base"  # of one that several source tables go into: the id of the schema whose columns it has
BUILDING = "lakehouse_cdc.building"  # true while several commits build a table from the whole of bronze
REBUILDING = "lakehouse_cdc.rebuilding"  # true of a table that is about to be replaced (see `apply.rebuild`), or ...
REDACTED = "redacted"  # ... where bronze has been redacted since it was made
CLUSTERED = "lakehouse_cdc.clustered"  # true of a table that was made to be, whatever it is clustered by now


@dataclass(frozen=True)
class FrozenShape:
    """What a frozen table says of its shape: the id of that schema, what each column follows, and what none does."""

    schema_id: str
    sources: Mapping[str, str]
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, text: str | None, schema_seq: int) -> FrozenShape | None:
        """From the table's property; None where the last change of the schema was not one that it stood still for."""
        return cls.parse(text) if json.loads(text or "{}").get("seq") == schema_seq else None

    @classmethod
    def parse(cls, text: str | None) -> FrozenShape | None:
        """The inverse of `text`; None for none."""
        data = json.loads(text or "{}")
        return cls(data["shape"], data["sources"], tuple(data["ignored"])) if data else None

    @classmethod
    def of_shape(cls, shape: Shape) -> FrozenShape:
        """That of a table of this shape."""
        return cls(shape.base.id, dict(shape.sources), shape.ignored)

    def text(self, seq: int) -> str:
        """The property of a table that stood still for the change at `seq`."""
        data = {"seq": seq, "shape": self.schema_id, "sources": self.sources, "ignored": self.ignored}
        return json.dumps(data, ensure_ascii=False)


@dataclass(frozen=True)
class SilverQuarantine:
    """A table that silver set aside: why, and the last version of bronze that it holds (None: it lacks all)."""

    reason: str
    after: int | None

    def text(self) -> str:
        """The property."""
        return json.dumps({"reason": self.reason, "after": self.after}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> SilverQuarantine | None:
        """The inverse; None for a table that is not set aside."""
        return cls(**json.loads(text)) if text else None


@dataclass(frozen=True)
class Held:
    """What a silver table says of itself. `schema_id` is None for one of a release that did not say it.

    `schema_seq` is the seq of the last change of the schema, `changing` of the one under way, each 0 for none.
    `building`: not everything that bronze held when the table was made has been applied to it yet. `left` is the seq
    at which the source's table was left off (dropped, or quarantined), 0 if it is followed. `frozen` is None where the
    table's shape is that of its schema. `form` is what it keeps of rows, `transform` what it makes of the columns.
    `rebuilding`: it is to be replaced, whatever is configured; `redacted`: that is so since bronze was redacted. `last`
    is the note of its newest commit, None for a table to which no batch has been applied; `through` the newest that its
    commits say, or 0. `base` is the schema whose columns a table has that several go into. `engine` is what keeps it.
    `in_steps`: it says that several commits build it. `carried`: the statement of the newest commit carried its note.
    """

    schema_id: str | None
    schema_seq: int
    changing: int
    phase: Phase
    building: bool
    kept: frozenset[str]
    left: int
    frozen: FrozenShape | None
    quarantine: SilverQuarantine | None
    form: Form
    last: CommitNote | None
    through: int
    transform: Transform = NOTHING
    base: str | None = None
    rebuilding: bool = False
    redacted: bool = False
    engine: str = SPARK
    in_steps: bool = False
    carried: bool = False

    @property
    def untouched(self) -> bool:
        """Whether the table is there, and nothing else has happened to it: nor is it being built in several commits."""
        return self.last is None and not self.in_steps and replace(self, building=False).settled

    @property
    def applied(self) -> int:
        """All that is older than this has been applied, under schemas that are gone."""
        return max(self.schema_seq, self.changing)

    @property
    def settled(self) -> bool:
        """Whether the table is followed, holds what was applied, and is in the middle of nothing."""
        under_way = self.building or self.changing or self.left or self.rebuilding
        return not under_way and self.quarantine is None and self.frozen is None

    @classmethod
    def of(cls, properties: Mapping[str, str], notes: Iterable[CommitNote]) -> Held:
        """From the table's properties and the notes of its commits, newest first."""
        last, through = None, 0
        for note in notes:
            last = last or note
            if note.through is not None:
                through = note.through
                break
        schema_seq = int(properties.get(SCHEMA_SEQ, "0"))
        seq, _, phase = properties.get(CHANGING, "0:0").partition(":")
        changing = int(seq) if int(seq) > schema_seq else 0
        return cls(
            schema_id=properties.get(SCHEMA_ID),
            schema_seq=schema_seq,
            changing=changing,
            phase=Phase(int(phase)) if changing else Phase.BEFORE,
            building=last is None or properties.get(BUILDING) == "true",
            kept=frozenset(json.loads(properties.get(KEPT, "[]"))),
            left=int(properties.get(LEFT, "0")),
            frozen=FrozenShape.of(properties.get(FROZEN), schema_seq),
            quarantine=SilverQuarantine.of(properties.get(QUARANTINED_BECAUSE)),
            form=form_of(properties),
            last=last,
            through=through,
            transform=Transform.of(properties.get(TRANSFORM)),
            base=properties.get(BASE),
            rebuilding=REBUILDING in properties,
            redacted=properties.get(REBUILDING) == REDACTED,
            engine=properties.get(ENGINE, SPARK),
            in_steps=properties.get(BUILDING) == "true",
        )


def held_by(reader: TableReader, layout: Layout, name: str) -> Held | None:
    """What the silver table of `name` says of itself, None if there is none yet.

    Raises DefiniteError where it, or its tombstones, are somebody else's or lack one another, and TableError where it
    is that of another source table.
    """
    table, beside = layout.silver_table(name), layout.tombstones(name)
    if not reader.exists(table):
        return None
    properties = require_own(reader, layout, table, name)
    if SCHEMA_ID not in properties and table.part is not None:
        return None  # others go into it so far
    commits = (commit for commit in reader.commits(table) if commit.note is not None)
    newest = next(commits, None)
    noted = () if newest is None else chain((newest,), commits)
    held = Held.of(properties, (commit.note for commit in noted if commit.note is not None))
    held = replace(held, carried=newest is not None and newest.carried_for is not None)
    if not held.form.has_tombstones:
        return held
    if not reader.exists(beside):
        raise codes.TOMBSTONES_MISSING.error(
            f"the tombstones of {name} are gone",
            where=str(beside),
            hint="restore them, or move the silver table away to have both built again from bronze",
        )
    require_own(reader, layout, beside, name)
    return held


def own_properties(reader: TableReader, layout: Layout, name: str) -> Held:
    """What the silver table of `name`, which is there, says of itself; neither commits nor tombstones are looked at."""
    return Held.of(require_own(reader, layout, layout.silver_table(name), name), ())


def held_by_others(reader: TableReader, layout: Layout, name: str) -> Held | None:
    """What the silver table says of itself that this one goes into with others; None where there is no such table."""
    table = layout.silver_table(name)
    return own_properties(reader, layout, name) if table.part is not None and reader.exists(table) else None
