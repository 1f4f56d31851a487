"""Whether statements logged as text, after a position, may have changed a table: for who has no catalog to ask.

An as-of read at W meets what lies in (W, H] before anybody has decided what that does. It gives no rows if one of those
texts may have changed its table, and the planner, which sees all that is logged up to the tip, puts the table's cursor
back. Both ask the same guard, made of what the offset at W holds; what it says of a stretch is never less true of a
longer one, and the planner's is the longer. So whatever was not read is read again. Texts up to W are not asked about:
the planner has decided on them, and where one may have changed the table, the floor of the read is not before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.xa import open_at
from lakehouse_cdc.sql.dml_names import Names
from lakehouse_cdc.sql.references import Definition, References, Sources


@dataclass(frozen=True)
class TextGuard:
    """Of one table at one position. `sources` is None where it is not known what leads to it: any text may then.

    `pending` are the XA transactions, prepared by then, that change the table where they are committed.
    """

    sources: Sources | None = None
    pending: frozenset[str] = frozenset()

    @classmethod
    def at(cls, offset: Offset, table: str, references: References | None) -> TextGuard:
        """The guard of a table at an offset's position; `references` are those that the offset names."""
        open_ones = open_at(offset.prepared, offset.position)
        pending = frozenset(p.xid for p in open_ones if p.again is not None and {table, "*"} & set(p.again))
        return cls(None if references is None else references.sources(table), pending)

    def may_change(self, texts: Collection[Names], definitions: Iterable[Definition], committed: Iterable[str]) -> bool:
        """Whether one of the texts, or of the XA transactions that are committed, may change the table."""
        if not self.pending.isdisjoint(committed):
            return True
        return bool(texts) and (self.sources is None or self.sources.meet(texts, definitions))


UNKNOWN = TextGuard()
