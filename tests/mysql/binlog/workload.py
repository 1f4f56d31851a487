"""Random transactions over three tables of a database: `cap_a` and `cap_b`, which tests capture, and `other`."""

from __future__ import annotations

import random

from tests.support.binlog_log import Log

TABLES = ("cap_a", "cap_b", "other")


def create(log: Log, database: str) -> None:
    log.run(
        f"USE {database}",
        "CREATE TABLE cap_a (id INT PRIMARY KEY, name VARCHAR(40), big BIGINT UNSIGNED)",
        "CREATE TABLE cap_b (k1 CHAR(4) NOT NULL, k2 INT NOT NULL, body TEXT, PRIMARY KEY (k1, k2))",
        "CREATE TABLE other (id INT AUTO_INCREMENT PRIMARY KEY, x DATETIME(6))",
    )


def run(log: Log, database: str, seed: int, transactions: int) -> None:
    """Commits, rollbacks, savepoints, temporary tables, DDL elsewhere, harmless statements, two rotations."""
    dice = random.Random(seed)
    log.run(f"USE {database}")
    flushes = {transactions // 3, 2 * transactions // 3}
    for number in range(transactions):
        if number in flushes:
            log.run("FLUSH BINARY LOGS")
        kind = dice.random()
        if kind < 0.05:
            log.run("ALTER TABLE other COMMENT = 'x'", "CREATE OR REPLACE VIEW v AS SELECT 1 AS a")
        elif kind < 0.10:
            log.run("CREATE TEMPORARY TABLE scratch (a INT)", "INSERT INTO scratch VALUES (1)", "DROP TABLE scratch")
        elif kind < 0.30:
            log.run(_change(dice, number))
        else:
            _transaction(log, dice, number)


def _transaction(log: Log, dice: random.Random, number: int) -> None:
    log.run("BEGIN")
    for step in range(dice.randint(0, 5)):
        log.run(_change(dice, 1_000_000 + 10 * number + step))
        if dice.random() < 0.2:
            log.run("SAVEPOINT a", _change(dice, 2_000_000 + 10 * number + step), "ROLLBACK TO a")
    log.run(dice.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))


def _change(dice: random.Random, number: int) -> str:
    rows = range(dice.choice((1, 1, 1, 3, 400)))
    return dice.choice(
        (
            "INSERT IGNORE INTO cap_a VALUES " + ", ".join(f"({number + 400 * i}, 'é{i}', {i})" for i in rows),
            "UPDATE cap_a SET big = big + 1, name = 'b' LIMIT 5",
            "DELETE FROM cap_a LIMIT 2",
            "REPLACE INTO cap_b VALUES " + ", ".join(f"('k', {number % 50 + i}, REPEAT('x', 90))" for i in rows),
            "UPDATE cap_b SET k2 = k2 + 100000 ORDER BY k2 DESC LIMIT 1",
            "INSERT INTO other (x) VALUES (NOW(6))",
            # in any other order the rows are logged by what the server's statistics say at that moment
            "UPDATE cap_a STRAIGHT_JOIN cap_b STRAIGHT_JOIN other SET name = 'm', body = 'n', x = NOW(6)"
            " WHERE cap_a.id % 7 = 1 AND k2 % 20 = 1",
        )
    )
