"""A pipeline through an SSH server, with a token that ends again and again, in the driver and in tasks alike."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.errors import TransientError
from lakehouse_cdc.testing import MySqlServer
from tests.support.pipelines import assert_each_event_once, bronze, pipeline
from tests.support.ssh_server import gate

COMMAND = """\
import os, sys
with open(sys.argv[1] + "/calls", "a") as calls:
    calls.write(f"{os.getppid()}\\n")
print(open(sys.argv[1] + "/token").read())
"""


@pytest.mark.long
def test_a_token_that_ends_and_a_tunnel_that_breaks(
    spark: SparkSession, mysql: MySqlServer, mysql_client: pymysql.Connection[Any], database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "print.py").write_text(COMMAND)
    token = tmp_path / "token"
    with gate(tmp_path) as bastion, mysql_client.cursor() as cursor:
        monkeypatch.setenv("SSH_KEY", bastion.key)
        cursor.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT)")
        cursor.execute("CREATE USER ending@'127.0.0.1' IDENTIFIED BY 'none yet'")
        cursor.execute("GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO ending@'127.0.0.1'")
        source = {
            "url": f"mysql://ending@127.0.0.1:{mysql.port}",
            "password_command": [sys.executable, str(tmp_path / "print.py"), str(tmp_path)],
            "password_seconds": 3600,  # longer than any token is valid
            "ssh": bastion.url,
            "ssh_key": "${env:SSH_KEY}",
            "ssh_known_hosts": str(bastion.known_hosts),
            "init_commands": ["SET SESSION optimizer_switch = 'mrr=on'"],
        }
        lake = pipeline(spark, mysql, database, tmp_path, source=source)
        for turn in range(4):
            token.write_text(f"token {turn}")
            cursor.execute(f"ALTER USER ending@'127.0.0.1' IDENTIFIED BY 'token {turn}'")
            cursor.execute(f"INSERT INTO {database}.t VALUES (%s, 1), (%s, 2)", (2 * turn, 2 * turn + 1))
            bastion.cut()
            later = threading.Timer(2.0 * turn, bastion.cut)
            later.start()
            try:
                lake.run(once=True)
            except TransientError:  # before its first batch a run is not tried again by itself
                lake.run(once=True)
            later.join()
            report = lake.verify()
            assert report.verified, report.to_json()
            assert report.rows == 2 * turn + 2
        assert_each_event_once(bronze(spark, lake))
        assert len(set((tmp_path / "calls").read_text().split())) >= 2, "tasks ask for themselves"
        assert bastion.logins >= 8
        assert {port for _, port in bastion.asked} == {mysql.port}
        cursor.execute("DROP USER ending@'127.0.0.1'")
    kept = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file() and path != token)
    assert "token 3" not in kept, "no file of the pipeline has it"
