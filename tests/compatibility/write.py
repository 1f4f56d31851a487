"""Writes what a release leaves behind: a source's binlog and rows, and a pipeline's tables and checkpoints over it.

    python -m tests.compatibility.write NAME.tar.gz

Run by the release that writes (this file needs nothing of it but its command line and `lakehouse_cdc.testing`); the
archive is then kept in this folder, and `test_earlier_releases` goes on from it. The last run is killed with a
batch planned and a repeated read unfinished.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path

from lakehouse_cdc.testing import MySqlServer

CONFIG = """\
name: shop
source:
  url: mysql://cdc@127.0.0.1:{port}
  password: ${{env:SHOP_PASSWORD}}
  mask_salt: ${{env:SHOP_SALT}}
  tables: ["shop.*"]
  chunk_rows: 20
  chunks_per_trigger: 1
target:
  path: ./lakehouse
  bronze: bronze
  silver: silver
tables:
  shop.versions: {{scd: 2}}
  shop.marked: {{deletes: soft}}
  shop.log: {{append: true}}
  shop.people: {{masks: {{email: hash}}, exclude: [secret]}}
"""
FIRST = """\
CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(10, 2), at DATETIME(6))
INSERT INTO plain VALUES (1, 'a', 1.5, '2024-01-01 00:00:00.5'), (2, 'b', NULL, NULL), (3, 'c', -7, NULL)
CREATE TABLE versions (id INT PRIMARY KEY, v INT)
INSERT INTO versions VALUES (1, 1), (2, 2), (3, 3)
CREATE TABLE marked (id INT PRIMARY KEY, v INT)
INSERT INTO marked VALUES (1, 1), (2, 2), (3, 3)
CREATE TABLE log (v INT)
INSERT INTO log VALUES (1), (1), (2)
CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(40), secret INT)
INSERT INTO people VALUES (1, 'a@b.c', 1), (2, NULL, 2)
CREATE TABLE twokeys (a VARCHAR(5), b INT, v JSON, PRIMARY KEY (a, b))
INSERT INTO twokeys VALUES ('x', 1, '{"a": 1.50}'), ('X', 2, '[]')
CREATE TABLE dropped (id INT PRIMARY KEY)
INSERT INTO dropped VALUES (1)"""
THEN = """\
UPDATE plain SET v = 'bb' WHERE id = 2
DELETE FROM plain WHERE id = 3
ALTER TABLE plain ADD COLUMN n INT NOT NULL DEFAULT 5, RENAME COLUMN v TO w
UPDATE versions SET v = v * 10
DELETE FROM versions WHERE id = 3
DELETE FROM marked WHERE id = 2
INSERT INTO log VALUES (3)
UPDATE twokeys SET v = '{"a": [true, null]}' WHERE b = 1
DROP TABLE dropped
XA START 'waits'
INSERT INTO plain VALUES (9, 'prepared', 9, NULL, 9)
XA END 'waits'
XA PREPARE 'waits'"""
LAST = """\
CREATE TABLE late (id INT PRIMARY KEY, v VARCHAR(100))
INSERT INTO late SELECT 20 * a.n + b.n, REPEAT('x', b.n) FROM digits a, digits b"""
# what is restored with `sql_log_bin = 0`: the log has it already
DUMPED = ("plain", "versions", "marked", "log", "people", "twokeys", "late")


def execute(server: MySqlServer, sql: str) -> None:
    """Each line is a statement in the database `shop`."""
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        cursor.execute("USE shop")
        for statement in sql.splitlines():
            cursor.execute(statement)


def command(home: Path, *words: str) -> list[str]:
    """A command of the product over the pipeline in `home`."""
    return [sys.executable, "-m", "lakehouse_cdc", words[0], "-c", str(home / "pipeline.yml"), *words[1:]]


ENVIRONMENT = {**os.environ, "SHOP_PASSWORD": "cdc-secret", "SHOP_SALT": "sixteen characters"}


def killed_amid_a_snapshot(home: Path) -> None:
    """Run until some chunks of the large table have been read again, then SIGKILL."""
    process = subprocess.Popen(command(home, "run", "--every", "0.1"), env=ENVIRONMENT, start_new_session=True)
    until = time.monotonic() + 300
    while not any(re.search(r'"cursor": \[[^]]', text) for text in offsets(home)[-1:]):
        assert process.poll() is None, "the run ended"
        assert time.monotonic() < until, "no chunk was read"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def offsets(home: Path) -> list[str]:
    """The offsets of bronze's checkpoint, by batch."""
    files = [path for path in home.rglob("bronze/offsets/*") if path.name.isdecimal()]
    return [path.read_text() for path in sorted(files, key=lambda path: int(path.name))]


def dump(server: MySqlServer) -> str:
    """The tables as statements, a line each."""
    lines = []
    with closing(server.connect(autocommit=True, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for table in DUMPED:
            cursor.execute(f"SHOW CREATE TABLE shop.{table}")
            lines.append(" ".join(cursor.fetchone()[1].split("\n")))
            cursor.execute(f"SELECT * FROM shop.{table}")
            marks = f"({', '.join(['%s'] * len(cursor.description))})"
            rows = [cursor.mogrify(marks, row) for row in cursor.fetchall()]
            lines.append(f"INSERT INTO {table} VALUES {', '.join(rows)}")
    return "\n".join(lines)


def main(archive: str) -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as name:
        kept = Path(name, "kept")
        home = kept / "home"
        home.mkdir(parents=True)
        with MySqlServer.start(Path(name, "server")) as server:
            (home / "pipeline.yml").write_text(CONFIG.format(port=server.port))
            with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE shop")
                cursor.execute("SET sql_log_bin = 0")
                cursor.execute("CREATE TABLE shop.digits (n INT PRIMARY KEY)")
                cursor.execute("INSERT INTO shop.digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9),(10),(11),(12)")
                cursor.execute("ALTER TABLE shop.digits RENAME TO mysql.digits_of_tests")
            execute(server, FIRST)
            subprocess.run(command(home, "run", "--once"), env=ENVIRONMENT, check=True)
            execute(server, THEN)
            subprocess.run(command(home, "run", "--once"), env=ENVIRONMENT, check=True)
            execute(server, LAST.replace("digits", "mysql.digits_of_tests"))
            subprocess.run(command(home, "run", "--once"), env=ENVIRONMENT, check=True)
            for table in ("marked", "late"):
                subprocess.run(command(home, "signal", "snapshot", f"shop.{table}"), env=ENVIRONMENT, check=True)
            killed_amid_a_snapshot(home)
            (kept / "rows.sql").write_text(dump(server), encoding="utf-8")
            about = {"port": server.port, "offsets": len(offsets(home))}
            (kept / "about.json").write_text(json.dumps(about))
        data = next(Path(name, "server").rglob("auto.cnf")).parent
        (kept / "log").mkdir()
        for file in (data / "auto.cnf", *data.glob("mysql-bin.*")):
            shutil.copy(file, kept / "log")
        with tarfile.open(archive, "w:gz") as out:
            out.add(kept, arcname=".")


if __name__ == "__main__":
    main(sys.argv[1])
