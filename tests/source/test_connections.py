"""A stream through an SSH server, by a token that ends between any two batches: planner and tasks alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source.stage import Stage
from tests.support.ssh_server import Gate, gate


@pytest.fixture
def bastion(tmp_path: Path) -> Iterator[Gate]:
    """An SSH server."""
    with gate(tmp_path) as made:
        yield made


@pytest.mark.long
def test_tokens_that_end_and_a_tunnel_that_breaks(stage: Stage, bastion: Gate, tmp_path: Path) -> None:
    token = tmp_path / "token"
    position = "BINLOG MONITOR, SLAVE MONITOR" if stage.server.version.startswith("mariadb") else "REPLICATION CLIENT"
    stage.create(rows=23)
    stage.run("CREATE USER ending@'127.0.0.1' IDENTIFIED BY 'none yet'")
    stage.run(f"GRANT SELECT, REPLICATION SLAVE, {position} ON *.* TO ending@'127.0.0.1'")
    try:
        driver = stage.driver(
            url=f"mysql://ending@127.0.0.1:{stage.server.port}",
            password="",
            passwordCommand=json.dumps(["cat", str(token)]),
            passwordSeconds="3600",  # longer than any token is valid
            initCommands=json.dumps(["SET SESSION optimizer_switch = 'mrr=on'"]),
            ssh=bastion.url,
            sshKeySecret=bastion.key,
            sshKnownHosts=bastion.known_hosts.read_text(),
        )
        for turn in range(12):
            token.write_text(f"token {turn}")
            stage.run(f"ALTER USER ending@'127.0.0.1' IDENTIFIED BY 'token {turn}'")
            stage.run(f"INSERT INTO t VALUES ({1000 + turn}, {turn})")
            if turn % 3 == 0:
                bastion.cut()
                driver.restart()
            driver.batch()
        stage.snapshot(driver)
        stage.drain(driver)
        stage.same(driver)
        assert bastion.logins >= 4
        assert {port for _, port in bastion.asked} == {stage.server.port}
        assert "token 1" not in json.dumps(driver.offset)
    finally:
        stage.run("DROP USER ending@'127.0.0.1'")
