"""Statements made from the grammar's data: bronze is the source after each, live and as a backlog, FULL and MINIMAL.

`tests/mysql/test_grammar.py` compares what is derived from one statement with what the server did. Here whole streams
read histories of such statements, with rows in between, so that a backlog's row images are those of every schema.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.judge.judge import Verdict, judged, tally
from tests.support.grammar_statements import CHECK, NAMES, ROWS, SETUP, Statements
from tests.support.servers import connected, row_metadata

pytestmark = pytest.mark.every_server

# at most this share of the units may set a table aside: they are right, but somebody has to act
QUARANTINED = 0.1


def generated_history(server: MySqlServer, database: str, rng: random.Random, length: int) -> list[Sequence[str]]:
    """Units, of which each third is a statement; the others write rows in tables that it may have changed."""
    version = NAMES[server.version]
    statements = Statements(version, rng.randrange(1 << 32), database)
    units: list[Sequence[str]] = []
    while len(units) < length:
        sql = statements.statement()
        # of a table whose file was discarded nothing can be read, and rows that are in a partition of other bounds
        # cannot be found by their keys, by anybody
        if "TABLESPACE" in sql or "WITHOUT VALIDATION" in sql:
            continue
        units.append((sql, "COMMIT", f"USE {database}"))
        for name in rng.sample(sorted(SETUP), 2):
            units.append((created(name, version), ROWS[name].replace("INSERT", "INSERT IGNORE")))
            units.append((f"UPDATE {name} SET a = {rng.randrange(9)} WHERE id <= {rng.randrange(9)}",))
    return units


def created(name: str, version: str) -> str:
    """The table, where a statement has dropped it."""
    sql = SETUP[name].format(check="" if version == "5.7" else CHECK)
    return sql.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)


def check(server: MySqlServer, folder: Path, seed: int, *, histories: int, length: int) -> None:
    rng = random.Random(seed)
    version = NAMES[server.version]
    setup = [part for name in SETUP for part in (created(name, version), ROWS[name])]
    for n in range(histories):
        database = f"generated_{n}"
        units = generated_history(server, database, rng, length)
        try:
            with row_metadata(server, ("FULL", "least")[n % 2]):
                findings = judged(server, database, folder / str(n), setup, units)
        finally:
            drop_databases_of_statements(server, database)
        refused = sum(bool(finding.refused) for finding in findings)
        print(n, tally(findings), f"{refused} of {len(findings)} with a statement that the server refused")
        assert [str(finding) for finding in findings if finding.failed] == []
        aside = [str(finding) for finding in findings if finding.verdict is Verdict.QUARANTINED]
        assert len(aside) <= QUARANTINED * len(findings), aside


def drop_databases_of_statements(server: MySqlServer, database: str) -> None:
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW DATABASES LIKE '{database}\\_%'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"DROP DATABASE `{name}`")


def test_generated_statements(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    check(any_server, tmp_path, seed, histories=1, length=6)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_two_thousand_generated_statements(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    check(any_server, tmp_path, seed, histories=40, length=150)
