"""A stream that follows to another server: each transaction is in bronze once, and nothing is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.model.changelog import Op, fold, invalid
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.testing.versions import Version
from tests.support.source.driver import Driver
from tests.support.source.replication import Member, group
from tests.support.source.stage import Stage, on_stage

pytestmark = pytest.mark.mysql

OTHERS = [pytest.param(one, marks=pytest.mark.long) for one in ("mysql-9", "mariadb-10.11")]
EACH = pytest.mark.parametrize("version", ["mysql-8.0", "mariadb-11", *OTHERS])


class Moving:
    """A stream over a group of servers: the first member is what is written to, and read."""

    def __init__(self, members: list[Member], stage: Stage, **options: str) -> None:
        self.members, self.stage = members, stage
        self.at = members[0]
        urls = ",".join(f"127.0.0.1:{one.server.port}" for one in members)
        self.driver = stage.driver(url=f"mysql://cdc@{urls}", onFailover="follow", **options)

    def run(self, sql: str) -> None:
        """A transaction on the primary."""
        self.at.run(f"USE {self.stage.database}")
        self.at.run(sql)

    def fail_over(self, number: int = 1, *, caught_up: bool = True) -> Member:
        """The primary is gone, and a replica takes its place."""
        to = self.members[number]
        if caught_up:
            to.caught_up(self.at)
        self.at.server.kill()
        self.at = to.promoted()
        self.stage.connection, self.stage.server = to.connection, to.server
        self.run("SELECT 1")
        return to

    def exact(self) -> None:
        """Bronze is the source now, and each of its transactions is there once."""
        self.stage.drain(self.driver)
        self.stage.same(self.driver)
        changes = [c for c in self.driver.log if c.op in (Op.INSERT, Op.UPDATE, Op.DELETE)]
        seen = Counter((c.op, c.key, c.before, c.after) for c in changes)
        assert max(seen.values(), default=1) == 1, "the test's changes are all different, and one is there twice"
        seqs = [c.seq for c in changes]
        assert len(set(seqs)) == len(seqs)


@pytest.fixture
def moving(version: Version, tmp_path: Path) -> Iterator[Moving]:
    """Two servers, and a table with rows."""
    with group(version) as members:
        for stage in on_stage(members[0].server, "moved", tmp_path):
            stage.create(rows=12)
            yield Moving(members, stage)


def epochs(driver: Driver) -> set[int]:
    return {change.seq // 10**34 for change in driver.log}


@EACH
def test_a_replica_is_promoted_after_the_snapshot(moving: Moving) -> None:
    moving.stage.snapshot(moving.driver)
    moving.run("UPDATE t SET v = 1 WHERE id < 50")
    moving.stage.drain(moving.driver)
    moving.run("UPDATE t SET v = 2 WHERE id = 0")  # which bronze has from the other server
    before = moving.driver.offset
    moving.fail_over()
    moving.run("INSERT INTO t VALUES (1, 3)")
    assert moving.driver.batch()
    moved = moving.driver.offset
    assert (moved["epoch"], moved["unbroken"]) == (2, 1)
    assert moved["server_uuid"] != before["server_uuid"]
    assert GtidSet.parse(moved["gtid"]) == GtidSet.parse(before["gtid"])
    moving.exact()
    assert epochs(moving.driver) == {1, 2}
    assert not [c for c in moving.driver.log if c.op is Op.READ and c.seq >= 2 * 10**34], "nothing is read again"
    moving.run("DELETE FROM t WHERE id = 10")
    moving.exact()
    assert invalid(moving.driver.log) is None
    assert len(fold(moving.driver.log)) == 12
