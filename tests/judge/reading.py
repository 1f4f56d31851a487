"""One stream over a judged history: what it has emitted, and how that differs from what the server has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lakehouse_cdc.model.changelog import Rows, apply
from lakehouse_cdc.model.multiset import remaining
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.table_state import Dropped
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.state_store import SchemaStore
from tests.judge.observe import Moment, described, image
from tests.judge.verdicts import Verdict
from tests.support.source.driver import Driver


@dataclass
class Reading:
    """One stream over the history, and the rows that its changes fold to so far."""

    way: str
    driver: Driver
    rows: Rows = field(default_factory=dict)
    folded: int = 0

    @property
    def offset(self) -> Offset:
        offset = restored(self.driver.offset, self.store)
        assert offset is not None
        return offset

    @property
    def store(self) -> SchemaStore:
        return SchemaStore(self.driver.options["schemaFolder"])

    def batch(self) -> bool:
        more = self.driver.batch()
        for change in sorted(self.driver.log[self.folded :], key=lambda c: c.seq):
            apply(self.rows, change)
        self.folded = len(self.driver.log)
        return more

    def images(self, schema: TableSchema) -> Counter[Any]:
        """The folded rows of a table, in the form of `observe`."""
        columns = {c.name: c for c in schema.columns}
        held = [dict(found) for (name, _), (_, found) in self.rows.items() if name == schema.name]
        if not schema.key:
            counted = remaining(change for change in self.driver.log if change.table == schema.name)
            if any(n < 0 for n in counted.values()):
                return counted  # no rows are like that
            held = [dict(found) for found in counted.elements()]
        if any(row.keys() - columns.keys() for row in held):
            return Counter(tuple(sorted(row)) for row in held)  # other columns: never equal
        return Counter(image((columns[name], row[name]) for name in row) for row in held)


def difference(reading: Reading, moment: Moment, *, newcomers: bool = True) -> str:
    """How the stream's state differs from the server's at that moment; '' if it does not.

    In the middle of a backlog, tables that were born, or got another name, need not be captured yet (`newcomers`).
    """
    offset, store = reading.offset, reading.store
    for name in sorted(offset.captured.keys() - moment.schemas.keys()):
        return f"{name} is gone, and is followed as if it were there"
    for name, schema in moment.schemas.items():
        state = offset.tables.get(name)
        if state is None or isinstance(state.phase, Dropped):
            if not newcomers:
                continue
            return f"{name} is there, and is not captured"
        if name in offset.quarantined or not state.complete:
            continue
        ours, theirs = described(store.get(state.schema)), described(schema)
        if ours != theirs:
            return f"{name}: the schema in force is {ours}, the catalog has {theirs}"
        found, expected = reading.images(schema), moment.rows[name]
        if found != expected:
            lost, invented = [*(expected - found)][:3], [*(found - expected)][:3]
            return (
                f"{name}: {sum(found.values())} rows, the server has {sum(expected.values())}; not in bronze:"
                f" {lost}; only in bronze: {invented}"
            )
    return ""


def effect(before: Offset, after: Offset) -> tuple[Verdict, str]:
    """What a batch did to tables, at the worst."""
    new = [name for name in after.quarantined if before.quarantined.get(name) != after.quarantined[name]]
    if new:
        return Verdict.QUARANTINED, "; ".join(f"{name}: {after.quarantined[name]}" for name in new)
    again = [
        name
        for name, state in after.tables.items()
        if state.in_repeated_pass and (name not in before.tables or before.tables[name].since != state.since)
    ]
    return (Verdict.READ_AGAIN, ", ".join(again)) if again else (Verdict.FOLLOWED, "")
