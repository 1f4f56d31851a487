"""Which tables have rows after a place in the log, and where the first of them are.

Rows are in events of their own, but for two kinds:

- Of an XA transaction that was prepared before the place, and is committed after it, they are in the log before the
  place. So its group is looked at, unless it is known to be rolled back.
- What a statement logged as text did is in no event. It counts for the tables that it names as written. What else it
  may reach (by a trigger, a view) was a matter of what was defined then, and that may be gone with the table.

Guards: tests/source/test_start.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.tail.log_tail import Mapped, Tail
from lakehouse_cdc.sql.dml_names import Names, lower


def first_rows(
    options: SourceOptions,
    matches: Callable[[str], bool],
    tail: Tail,
    mapped: Mapped,
    prepared: Sequence[Prepared],
    statements: Iterable[LoggedStatement],
) -> dict[str, Position]:
    """Of each table that matches, and has rows after the tail's origin: a place that none of them is before.

    `mapped` is the tail's, `prepared` is what is open at its origin. Texts count for tables that `statements` name, or
    drop with their database.
    """
    rows, texts = dict(mapped.first), [(seen.places[0], names) for names, seen in tail.texts.rows(tail.origin).items()]
    texts += [(begin, names) for begin, several in tail.xa.texts.items() for names in several]
    for one in prepared:
        if not _rolled_back(tail, one):
            mapped_before = Mapped()
            with Tail(options, one.begin, matches=matches, mapped=mapped_before, server=tail.server) as group:
                group.advance(one.end)
                texts += [(tail.origin, names) for several in group.xa.texts.values() for names in several]
            rows |= dict.fromkeys(mapped_before.first, tail.origin)
    for name in _named(statements, [names for _, names in texts]):
        if places := [at for at, names in texts if names.may_write(name)]:
            rows[name] = min([*places, rows.get(name, places[0])])
    return {name: at for name, at in rows.items() if matches(name)}


def _rolled_back(tail: Tail, one: Prepared) -> bool:
    decisions = [event for event in tail.xa.events(tail.scanned) if event.xid == one.xid and event.prepared is None]
    return bool(decisions) and not decisions[0].committed


def _named(statements: Iterable[LoggedStatement], texts: Iterable[Names]) -> set[str]:
    named, dropped = set[str](), dict[str, str]()
    for statement in (logged.statement for logged in statements):
        named |= set(statement.tables)
        dropped |= {lower(database): database for database in statement.databases}
    nodes = [node for names in texts for node in names.nodes]
    return named | {join(dropped[database], table) for _, database, table in nodes if database in dropped}
