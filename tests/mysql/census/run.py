"""The census: every column type becomes every other by an ALTER on a server, and rows are read before and after.

For a source column there is a table with one copy of it for each of some targets, and all are altered in one statement;
where the server refuses that, half of them are, and so on, so that each pair is judged by itself. What our list proves
is tried once more, alone, as the server does it on its own accord and with a copy of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import pymysql

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.key_range import select_list
from lakehouse_cdc.mysql.wire.select import select_images
from lakehouse_cdc.schema.representation import DATES
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.ddl.alter import altered
from lakehouse_cdc.sql.ddl.column_type import Given
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.lexer import NotUnderstood
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.mysql.census.columns import Spec
from tests.support.images.tables import SESSION
from tests.support.servers import connected

STRICT = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"
BITS = {STRICT: 1 << 21 | 1 << 23 | 1 << 24 | 1 << 26, "": 0}  # as a statement's event has them
_AT_ONCE = 12  # targets in one statement; more VARCHARs would not fit a row

Verdict = Literal["proven", "again", "again, but the same", "refused"]


@dataclass(frozen=True)
class Found:
    """One pair under one sql_mode. `wrong` says how a proof does not hold; it is empty where all is well."""

    old: Spec
    new: Spec
    mode: str
    verdict: Verdict
    wrong: str = ""


class Census:
    """The census on one server, in a database of its own."""

    def __init__(self, server: MySqlServer, database: str) -> None:
        self._mariadb = server.version in MARIADB
        self._database = database
        self._writer = connected(server, charset="utf8mb4")
        self._cursor = self._writer.cursor()
        self._run(f"CREATE DATABASE IF NOT EXISTS {database}", f"USE {database}")
        options = ConnectionOptions(host="127.0.0.1", port=server.port, user="root", password="")
        self._catalog: Session = connect(options)
        self._server = server
        self._reader = self._new_reader()

    def close(self) -> None:
        """End the sessions that read."""
        for connection in (self._catalog, self._reader, self._writer):
            connection.close()

    def _new_reader(self) -> pymysql.Connection[Any]:
        """A session as a snapshot has one."""
        reader = connected(self._server)
        reader.cursor().execute(SESSION)
        return reader

    def pairs(self, old: Spec, targets: Sequence[Spec]) -> Iterator[Found]:
        """What becomes of a column that is altered to each of the targets, with each sql_mode."""
        for at in range(0, len(targets), _AT_ONCE):
            some = targets[at : at + _AT_ONCE]
            for mode in BITS:
                for found in self._chunk(old, some, mode):
                    alone = found.verdict == "proven" and not found.wrong
                    yield replace(found, wrong=self._alone(old, found.new, mode)) if alone else found

    def _run(self, *statements: str, mode: str = "ALLOW_INVALID_DATES") -> None:
        self._cursor.execute(f"SET sql_mode = '{mode}'")
        for sql in statements:
            self._cursor.execute(sql)

    def _filled(self, old: Spec, count: int) -> TableSchema:
        """Table `w`, with `count` columns of the source's values."""
        columns = ", ".join(f"c{i} {old.declared}" for i in range(count))
        rows = (f"({n}, {', '.join([value] * count)})" for n, value in enumerate(old.values))
        self._run(
            "DROP TABLE IF EXISTS w",
            f"CREATE TABLE w (id INT PRIMARY KEY, {columns}) CHARACTER SET utf8mb4 ROW_FORMAT=DYNAMIC",
            *(f"INSERT IGNORE INTO w VALUES {row}" for row in rows),
        )
        return self._schema(old)

    def _schema(self, old: Spec) -> TableSchema:
        [schema] = read_tables(self._catalog, Selection([f"{self._database}.w"])).values()
        columns = (replace(c, carried=old.carried if c.type in DATES else "") for c in schema.columns)
        return replace(schema, columns=tuple(columns))

    def _images(self, schema: TableSchema, names: Iterable[str]) -> dict[str, list[Any]]:
        """The values of columns, in the order of the key; one that cannot be read is an error as a value."""
        found: dict[str, list[Any]] = {}
        for name in names:
            columns = tuple(replace(c, captured=c.name in ("id", name)) for c in schema.columns)
            one = replace(schema, columns=columns)
            sql = f"SELECT {select_list(one)} FROM {self._database}.w ORDER BY id"
            try:
                metadata = ProgramSet.of([one]).metadata[0]
                pieces = list(select_images(self._reader, sql, one))
                rows: list[Any] = [decode(piece.after[i] or b"", metadata) for piece in pieces for i in range(piece.n)]
                found[name] = [plain(row[name]) for row in rows]
            except CdcError as error:
                found[name] = [error.what]
                with suppress(pymysql.err.Error):  # it was closed, where rows were left to be read
                    self._reader.close()
                self._reader = self._new_reader()
        return found

    def _chunk(self, old: Spec, targets: Sequence[Spec], mode: str) -> Iterator[Found]:
        schema = self._filled(old, len(targets))
        names = [f"c{i}" for i in range(len(targets))]
        before = self._images(schema, ["c0"])["c0"]
        assert not isinstance(before[0], str) or len(before) == len(old.values), (old.name, before)
        done = set(self._altered(list(zip(names, targets, strict=True)), mode))
        after = self._images(self._schema(old), done)
        for name, new in zip(names, targets, strict=True):
            if name not in done:
                yield Found(old, new, mode, "refused")
                continue
            same = after[name] == before
            sql = f"ALTER TABLE w MODIFY {name} {new.declared}"
            if not self._proven(sql, schema, mode):
                yield Found(old, new, mode, "again, but the same" if same else "again")
                continue
            wrong = "" if same else difference(before, after[name])
            yield Found(old, new, mode, "proven", wrong)

    def _alone(self, old: Spec, new: Spec, mode: str) -> str:
        """How a proof does not hold where the pair is altered alone; '' where it does, or the server refuses it."""
        for how in ("", ", ALGORITHM=COPY"):
            schema = self._filled(old, 1)
            before = self._images(schema, ["c0"])["c0"]
            try:
                self._run(f"ALTER TABLE w MODIFY c0 {new.declared}{how}", mode=mode)
            except pymysql.err.MySQLError:
                continue
            after = self._images(self._schema(old), ["c0"])["c0"]
            if after != before:
                return f"alone{how}: {difference(before, after)}"
        return ""

    def _altered(self, columns: list[tuple[str, Spec]], mode: str) -> Iterator[str]:
        """Alter the columns; the names of those that the server altered."""
        clauses = ", ".join(f"MODIFY {name} {new.declared}" for name, new in columns)
        try:
            self._run(f"ALTER TABLE w {clauses}", mode=mode)
        except pymysql.err.MySQLError:
            if len(columns) > 1:
                half = len(columns) // 2
                yield from self._altered(columns[:half], mode)
                yield from self._altered(columns[half:], mode)
            return
        yield from (name for name, _ in columns)

    def _proven(self, sql: str, schema: TableSchema, mode: str) -> bool:
        given = Given(schema.charset, self._mariadb, session=StatementSession(BITS[mode]))
        try:
            return altered(sql, schema, given).kept
        except NotUnderstood:
            return False


def counts(version: str, found: Iterable[Found]) -> dict[str, dict[str, int]]:
    """How many pairs of a server have which verdict, by `server, mode`."""
    numbers: dict[str, dict[str, int]] = {}
    for one in found:
        of_mode = numbers.setdefault(f"{version}, {'strict' if one.mode else 'empty'}", {})
        of_mode[one.verdict] = of_mode.get(one.verdict, 0) + 1
    return numbers


def plain(value: Any) -> Any:
    """A value by its type and its content: numbers by their value, whatever their width; floats by their bits."""
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value).normalize())
    if isinstance(value, float):
        return ("float", value.hex())
    return (type(value).__name__, value)


def difference(before: list[Any], after: list[Any]) -> str:
    """The first value that differs."""
    pairs = zip(before, after, strict=False)
    return next((f"{a!r:.80} -> {b!r:.80}" for a, b in pairs if a != b), f"{len(before)} -> {len(after)} rows")
