"""The judge: whether a history of statements on a real server is followed, live and as a backlog.

`judged` runs a setup, takes the first snapshot, and executes units of statements one after the other. After each unit
the server is asked what its tables are (see `observe`). Two streams read the same history: one after each unit (live),
the other all of it at the end (backlog), so that the backlog's DDL is read when later DDL has hidden it from the
catalog. Both begin from one snapshot, and no Spark takes part: the planner and the split readers are called as Spark
would call them.

A unit is one statement, or several that nothing may come between (locks, an open transaction, a table that does not
exist in the middle of a swap). The live stream is compared with the server after every unit. The backlog ends a batch
at each DDL that it follows; where that is the end of a unit, it is compared with what the server was *then*: schema,
rows, and which tables are there. At the end both are compared with the server as it is.

After each unit a row of every captured table is replaced by itself, so that there are row images under each schema
which a backlog reads. Tables under `by_*`, and in the database `{other}`, are not captured: whatever is done to them
may have no effect at all.
"""

from __future__ import annotations

import copy
import shutil
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.model.changes import Rows, apply
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.mysql.session import ConnectionOptions, Session, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.schemas import SchemaStore
from lakehouse_cdc.source.signals import Signals
from lakehouse_cdc.testing import MySqlServer
from tests.judge.observe import Moment, described, image, observe
from tests.source.driver import Driver

Unit = str | Sequence[str]


class Verdict(str, Enum):
    """What became of a unit. The first three are right; how many are read again or quarantined is counted."""

    FOLLOWED = "followed"
    READ_AGAIN = "read again"
    QUARANTINED = "quarantined"
    UNSEEN = "unseen"  # a table was quarantined by an earlier unit, or the stream had stopped
    STOPPED = "stopped"
    WRONG = "WRONG"


@dataclass(frozen=True)
class Finding:
    """The verdict on one unit, read `way` (live or backlog); `refused` is the server's own error, if it gave one."""

    way: str
    unit: tuple[str, ...]
    verdict: Verdict
    what: str = ""
    refused: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in (Verdict.STOPPED, Verdict.WRONG)

    def __str__(self) -> str:
        refused = f" (refused: {self.refused})" if self.refused else ""
        return f"{self.verdict.value} ({self.way}): {'; '.join(self.unit)}{refused}: {self.what}"


def judged(
    server: MySqlServer, database: str, folder: Path, setup: Iterable[str], units: Iterable[Unit], *, touch: bool = True
) -> list[Finding]:
    """Run `setup` and `units` in new databases, and say of each unit how it was followed, live and as a backlog.

    `database` must not exist; `{database}` and `{other}` in a statement stand for it and for a second one of which
    nothing is captured; both are dropped afterwards. Raises pymysql.Error for a setup that the server refuses.
    """
    with _case(server, database, folder, touch=touch) as case:
        for sql in setup:
            case.run(sql)
        case.begin()
        for unit in units:
            case.unit((unit,) if isinstance(unit, str) else tuple(unit))
        return case.end()


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each verdict."""
    return dict(Counter(finding.verdict.value for finding in findings))


@contextmanager
def _case(server: MySqlServer, database: str, folder: Path, *, touch: bool) -> Iterator[_Case]:
    other = f"{database}_other"
    admin = server.connect(autocommit=True, charset="utf8mb4")
    asked = connect(ConnectionOptions.from_url(f"mysql://cdc@127.0.0.1:{server.port}", password="cdc-secret"))
    case = None
    with closing(admin), closing(asked):
        # what a session of the server's own default may do is the statements' affair, not the observer's
        admin.cursor().execute("SET sql_mode = '', time_zone = '+00:00', lock_wait_timeout = 5")
        for name in (database, other):
            admin.cursor().execute(f"CREATE DATABASE {name}")
        admin.cursor().execute(f"CREATE TABLE {database}.anchor (id INT PRIMARY KEY) ENGINE=InnoDB")
        admin.cursor().execute(f"INSERT INTO {database}.anchor VALUES (1), (2)")
        try:
            case = _Case(server, database, other, folder, admin, asked, touch)
            yield case
        finally:
            if case is not None:
                case.close()
            for name in (database, other):
                admin.cursor().execute(f"DROP DATABASE IF EXISTS {name}")


@dataclass
class _Reading:
    """One stream over the history, and the rows that its changes fold to so far."""

    way: str
    driver: Driver
    rows: Rows = field(default_factory=dict)
    folded: int = 0

    @property
    def offset(self) -> Offset:
        found = Offset.from_json(self.driver.offset)
        assert found is not None
        return found

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
        if any(row.keys() - columns.keys() for row in held):
            return Counter(tuple(sorted(row)) for row in held)  # other columns: never equal
        return Counter(image((columns[name], row[name]) for name in row) for row in held)


def _difference(reading: _Reading, moment: Moment, *, newcomers: bool = True) -> str:
    """How the stream's state differs from the server's at that moment; '' if it does not.

    In the middle of a backlog, tables that were born, or got another name, need not be captured yet (`newcomers`).
    """
    offset, store = reading.offset, reading.store
    for name in sorted(offset.there.keys() - moment.schemas.keys()):
        return f"{name} is gone, and is followed as if it were there"
    for name, schema in moment.schemas.items():
        state = offset.tables.get(name)
        if state is None or state.dropped:
            if not newcomers:
                continue
            return f"{name} is there, and is not captured"
        if state.quarantined or not state.complete:
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


class _Case:
    """One history: the session that writes it, and the streams that read it."""

    def __init__(
        self, server: MySqlServer, database: str, other: str, folder: Path,
        admin: pymysql.Connection[Any], asked: Session, touch: bool,
    ) -> None:  # fmt: skip
        self._server, self._database, self._other, self._folder = server, database, other, folder
        self._admin, self._asked, self._touch = admin, asked, touch
        self._selection = Selection([f"{database}.*", f"!{database}.by_*"])
        self._session = server.connect(autocommit=True, charset="utf8mb4", database=database)
        self._session.cursor().execute("SET lock_wait_timeout = 10")
        self._units: list[tuple[tuple[str, ...], str]] = []
        self._moments: list[Moment] = []
        self._findings: list[Finding] = []
        self._streams = 0
        self._live: _Reading | None = None
        self._backlog: _Reading | None = None

    def run(self, sql: str) -> None:
        """Execute one statement in the case's own session, of whose settings nobody else depends."""
        text = sql.replace("{database}", self._database).replace("{other}", self._other)
        with self._session.cursor() as cursor:
            cursor.execute(text)
            cursor.fetchall()
            while cursor.nextset():
                pass

    def begin(self) -> None:
        """The first snapshot, from which both streams go on."""
        self._live = self._reading("live")
        self._snapshot(self._live)
        self._backlog = self._reading("backlog")
        shutil.copytree(self._live.driver.options["schemaFolder"], self._backlog.driver.options["schemaFolder"],
                        dirs_exist_ok=True)  # fmt: skip
        self._backlog.driver.offset = copy.deepcopy(self._live.driver.offset)
        self._backlog.rows = dict(self._live.rows)

    def unit(self, statements: tuple[str, ...]) -> None:
        """Execute them, and judge the live stream."""
        refused = ""
        for sql in statements:
            try:
                self.run(sql)
            except pymysql.Error as error:  # noqa: PERF203
                refused = refused or " ".join(map(str, error.args))
        self._units.append((statements, refused))
        self._moments.append(observe(self._asked, self._admin, self._selection))
        self._judge_live()
        if self._touch:
            self._replace_a_row_by_itself()

    def end(self) -> list[Finding]:
        """The verdicts on all units, by the live stream and then by the backlog."""
        last = observe(self._asked, self._admin, self._selection)
        if self._units:
            self._judge_end(last)
            self._judge_backlog(last)
        return self._findings

    def close(self) -> None:
        for reading in (self._live, self._backlog):
            if reading is not None:
                reading.driver.stop()
        self._session.close()

    # ------------------------------------------------------------------ live

    def _judge_live(self) -> None:
        assert self._live is not None
        before, moment = self._live.offset, self._moments[-1]
        try:
            self._drain(self._live, moment.position)
        except CdcError as error:
            self._find("live", len(self._units) - 1, Verdict.STOPPED, str(error))
            self._live.driver.stop()
            self._live = self._reading("live")
            self._snapshot(self._live)
            return
        after = self._live.offset
        verdict, what = _effect(before, after)
        if difference := _difference(self._live, moment):
            verdict, what = Verdict.WRONG, difference
        elif unfinished := [name for name, state in after.there.items() if not state.complete]:
            verdict, what = Verdict.WRONG, f"{unfinished} are never read to their end"
        self._find("live", len(self._units) - 1, verdict, what)
        self._take_up_quarantined(after)

    def _judge_end(self, last: Moment) -> None:
        """The last rows that were touched."""
        assert self._live is not None
        self._drain(self._live, last.position)
        if difference := _difference(self._live, last):
            self._find("live", len(self._units) - 1, Verdict.WRONG, f"after it: {difference}")

    def _take_up_quarantined(self, offset: Offset) -> None:
        if offset.quarantined:
            assert self._live is not None
            for name in offset.quarantined:
                Signals(self._live.driver.options["schemaFolder"]).request(name)
            self._drain(self._live, self._moments[-1].position)

    # ------------------------------------------------------------------ backlog

    def _judge_backlog(self, last: Moment) -> None:
        reading = self._backlog
        assert reading is not None
        ends, verdicts = [m.position for m in self._moments], [(Verdict.FOLLOWED, "")] * len(self._units)
        before, stopped = reading.offset, None
        for _ in range(50 + 20 * len(self._units)):
            try:
                more = reading.batch()
            except CdcError as error:
                stopped = str(error)
                break
            after = reading.offset
            i = min(bisect_left(ends, (after.position.file, after.position.pos)), len(ends) - 1)
            found = _effect(before, after)
            if verdicts[i][0] is not Verdict.WRONG and found[0] is not Verdict.FOLLOWED:
                verdicts[i] = found
            moment = self._moments[i] if ends[i] == (after.position.file, after.position.pos) else None
            if moment is not None and (difference := _difference(reading, moment, newcomers=False)):
                verdicts[i] = Verdict.WRONG, difference
            if not more and (after.position.file, after.position.pos) == last.position:
                break
            before = after
        if stopped is None and (difference := _difference(reading, last)):
            verdicts[-1] = Verdict.WRONG, f"at the end: {difference}"
        elif stopped is None and (unfinished := [n for n, s in reading.offset.there.items() if not s.complete]):
            verdicts[-1] = Verdict.WRONG, f"{unfinished} are never read to their end"
        self._find_backlog(verdicts, stopped)

    def _find_backlog(self, verdicts: Sequence[tuple[Verdict, str]], stopped: str | None) -> None:
        """The stream stops at the first unit after the last batch; all that follow are not seen."""
        assert self._backlog is not None
        at = len(verdicts)
        if stopped is not None:
            here = (self._backlog.offset.position.file, self._backlog.offset.position.pos)
            at = next((i for i, m in enumerate(self._moments) if m.position > here), len(verdicts) - 1)
        blind = False
        for i, (verdict, what) in enumerate(verdicts):
            if i == at:
                verdict, what = Verdict.STOPPED, stopped or ""
            elif i > at or (blind and verdict is Verdict.FOLLOWED):
                verdict = Verdict.UNSEEN
            blind = blind or verdict is Verdict.QUARANTINED
            self._find("backlog", i, verdict, what)

    # ------------------------------------------------------------------ both

    def _reading(self, way: str) -> _Reading:
        self._streams += 1
        options = {
            "url": f"mysql://cdc@127.0.0.1:{self._server.port}",
            "password": "cdc-secret",
            "tables": ",".join(self._selection.patterns),
            "schemaFolder": str(self._folder / f"schemas-{self._streams}"),
            "idleSeconds": "0.001",
            "zeroDates": "null",
        }
        SourceOptions.parse(options)
        return _Reading(way, Driver(options))

    def _snapshot(self, reading: _Reading) -> None:
        for _ in range(60):
            reading.batch()
            if reading.driver.offset and all(s.complete or s.away for s in reading.offset.tables.values()):
                return
        raise AssertionError(f"the snapshot does not end: {reading.driver.offset}")

    @staticmethod
    def _drain(reading: _Reading, end: tuple[str, int]) -> None:
        """Batches until the stream is where the quiet server is, and nothing is owed."""
        for _ in range(60):
            more, at = reading.batch(), reading.offset.position
            if not more and (at.file, at.pos) == end:
                return
        raise AssertionError(f"the stream does not reach {end}: {reading.driver.offset}")

    def _find(self, way: str, i: int, verdict: Verdict, what: str = "") -> None:
        unit, refused = self._units[i]
        self._findings.append(Finding(way, unit, verdict, what, refused))

    def _replace_a_row_by_itself(self) -> None:
        """REPLACE of one row of each captured table; what a constraint, a trigger or a lock forbids is left."""
        for schema in self._moments[-1].schemas.values():
            name = f"`{schema.database}`.`{schema.table}`"
            generated = "SELECT COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            with self._admin.cursor() as cursor, suppress(pymysql.Error):
                cursor.execute(
                    f"{generated} AND COALESCE(GENERATION_EXPRESSION, '') = ''", (schema.database, schema.table)
                )
                columns = ", ".join(f"`{row[0]}`" for row in cursor.fetchall())
                cursor.execute(f"REPLACE INTO {name} ({columns}) SELECT {columns} FROM {name} LIMIT 1")


def _effect(before: Offset, after: Offset) -> tuple[Verdict, str]:
    """What a batch did to tables, at the worst."""
    new = [name for name in after.quarantined if before.quarantined.get(name) != after.quarantined[name]]
    if new:
        return Verdict.QUARANTINED, "; ".join(f"{name}: {after.quarantined[name]}" for name in new)
    again = [
        name
        for name, state in after.tables.items()
        if state.mode == "again" and (name not in before.tables or before.tables[name].since != state.since)
    ]
    return (Verdict.READ_AGAIN, ", ".join(again)) if again else (Verdict.FOLLOWED, "")
