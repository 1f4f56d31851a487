"""One judged history: the session that writes it, and the two streams that read it (see `judge`)."""

from __future__ import annotations

import copy
import shutil
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.testing import MySqlServer
from tests.judge.observe import Moment, observe
from tests.judge.reading import Reading, difference, effect
from tests.judge.verdicts import Finding, Verdict
from tests.support.servers import connected
from tests.support.source.driver import Driver


@contextmanager
def new_case(server: MySqlServer, database: str, folder: Path, *, touch: bool) -> Iterator[Case]:
    other = f"{database}_other"
    admin = connected(server, charset="utf8mb4")
    asked = connect(ConnectionOptions.from_url(f"mysql://cdc@127.0.0.1:{server.port}", password="cdc-secret"))
    case = None
    with closing(admin), closing(asked):
        # what a session of the server's own default may do is the statements' affair, not the observer's
        admin.cursor().execute("SET sql_mode = '', foreign_key_checks = 0, time_zone = '+00:00', lock_wait_timeout = 5")
        for name in (database, other):
            admin.cursor().execute(f"CREATE DATABASE {name}")
        admin.cursor().execute(f"CREATE TABLE {database}.anchor (id INT PRIMARY KEY) ENGINE=InnoDB")
        admin.cursor().execute(f"INSERT INTO {database}.anchor VALUES (1), (2)")
        try:
            case = Case(server, database, other, folder, admin, asked, touch)
            yield case
        finally:
            if case is not None:
                case.close()
            for name in (database, other):
                admin.cursor().execute(f"DROP DATABASE IF EXISTS {name}")


class Case:
    """One history: the session that writes it, and the streams that read it."""

    def __init__(
        self, server: MySqlServer, database: str, other: str, folder: Path,
        admin: pymysql.Connection[Any], asked: Session, touch: bool,
    ) -> None:  # fmt: skip
        self._server, self._database, self._other, self._folder = server, database, other, folder
        self._admin, self._asked, self._touch = admin, asked, touch
        self._selection = Selection([f"{database}.*", f"!{database}.by_*"])
        self._session = connected(server, charset="utf8mb4", database=database)
        self._session.cursor().execute("SET lock_wait_timeout = 10")
        self._units: list[tuple[tuple[str, ...], str]] = []
        self._moments: list[Moment] = []
        self._findings: list[Finding] = []
        self._streams = 0
        self._live: Reading | None = None
        self._backlog: Reading | None = None

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
        self._backlog.driver.log = [*self._live.driver.log]
        self._backlog.folded = self._live.folded

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
            self._begin_anew()
            return
        after = self._live.offset
        verdict, what = effect(before, after)
        if differs := difference(self._live, moment):
            verdict, what = Verdict.WRONG, differs
        elif unfinished := [name for name, state in after.captured.items() if not state.complete]:
            verdict, what = Verdict.WRONG, f"{unfinished} are never read to their end"
        self._find("live", len(self._units) - 1, verdict, what)
        if verdict is Verdict.WRONG:
            self._begin_anew()
        else:
            self._take_up_quarantined(after)

    def _begin_anew(self) -> None:
        """What is wrong is so once: later units are judged by a stream that knows nothing of it."""
        assert self._live is not None
        self._live.driver.stop()
        self._live = self._reading("live")
        self._snapshot(self._live)

    def _judge_end(self, last: Moment) -> None:
        """The last rows that were touched."""
        assert self._live is not None
        self._drain(self._live, last.position)
        if differs := difference(self._live, last):
            self._find("live", len(self._units) - 1, Verdict.WRONG, f"after it: {differs}")

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
        before = reading.offset
        stopped: CdcError | None = None
        for _ in range(50 + 20 * len(self._units)):
            try:
                more = reading.batch()
            except CdcError as error:
                stopped = error
                break
            after = reading.offset
            i = min(bisect_left(ends, (after.position.file, after.position.pos)), len(ends) - 1)
            found = effect(before, after)
            if verdicts[i][0] is not Verdict.WRONG and found[0] is not Verdict.FOLLOWED:
                verdicts[i] = found
            moment = self._moments[i] if ends[i] == (after.position.file, after.position.pos) else None
            if moment is not None and (differs := difference(reading, moment, newcomers=False)):
                verdicts[i] = Verdict.WRONG, differs
            if not more and (after.position.file, after.position.pos) == last.position:
                break
            before = after
        if stopped is None and (differs := difference(reading, last)):
            verdicts[-1] = Verdict.WRONG, f"at the end: {differs}"
        elif stopped is None and (unfinished := [n for n, s in reading.offset.captured.items() if not s.complete]):
            verdicts[-1] = Verdict.WRONG, f"{unfinished} are never read to their end"
        self._find_backlog(verdicts, stopped)

    def _find_backlog(self, verdicts: Sequence[tuple[Verdict, str]], stopped: CdcError | None) -> None:
        """The stream stops at the first unit after the last batch; all that follow are not seen."""
        assert self._backlog is not None
        at = len(verdicts)
        if stopped is not None:
            at = self._place(stopped, self._backlog.offset)
        blind = False
        for i, (verdict, what) in enumerate(verdicts):
            if i == at:
                verdict, what = Verdict.STOPPED, str(stopped)
            elif i > at or (blind and verdict is Verdict.FOLLOWED):
                verdict = Verdict.UNSEEN
            blind = blind or verdict is Verdict.QUARANTINED
            self._find("backlog", i, verdict, what)

    def _place(self, error: CdcError, last: Offset) -> int:
        """The unit at which the stream stopped: the error names a position, or it is the first after the last batch."""
        file, _, pos = error.where.rpartition(":")
        here = (file, int(pos)) if file and pos.isdigit() else (last.position.file, last.position.pos + 1)
        return next((i for i, m in enumerate(self._moments) if m.position >= here), len(self._moments) - 1)

    # ------------------------------------------------------------------ both

    def _reading(self, way: str) -> Reading:
        self._streams += 1
        options = {
            "url": f"mysql://cdc@127.0.0.1:{self._server.port}",
            "password": "cdc-secret",
            "tables": ",".join(self._selection.patterns),
            "schemaFolder": str(self._folder / f"schemas-{self._streams}"),
            "idleSeconds": "0.001",
            "zeroDates": "null",
            "tls": "disabled",  # a handshake for each of many short sessions
        }
        return Reading(way, Driver(options))

    def _snapshot(self, reading: Reading) -> None:
        for _ in range(60):
            reading.batch()
            if reading.driver.offset and all(s.complete or not s.captured for s in reading.offset.tables.values()):
                return
        raise AssertionError(f"the snapshot does not end: {reading.driver.offset}")

    @staticmethod
    def _drain(reading: Reading, end: tuple[str, int]) -> None:
        """Batches until the stream is where the quiet server was, and nothing is owed.

        After FLUSH LOGS MariaDB ends the log with a checkpoint event, some time later.
        """
        for _ in range(60):
            more, at = reading.batch(), reading.offset.position
            if not more and (at.file, at.pos) >= end:
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
