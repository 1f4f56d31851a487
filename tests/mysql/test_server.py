"""What the server says of itself, and the hole: a position in the binlog that no SELECT sees yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.testing import MySqlServer
from tests.support.gtids import upto_the_next

_DELAY_US = 1_000_000


@pytest.fixture
def session(mysql: MySqlServer) -> Iterator[Session]:
    with connect(ConnectionOptions.from_url(mysql.url)) as session:
        yield session


@pytest.fixture
def table(session: Session, database: str) -> str:
    session.query(f"CREATE TABLE {database}.t (id INT PRIMARY KEY AUTO_INCREMENT)")
    return f"{database}.t"


@pytest.fixture
def slow_commits(session: Session, table: str) -> Iterator[None]:
    """Every commit stands in the binlog a second before InnoDB makes it visible."""
    session.query(f"SET GLOBAL binlog_group_commit_sync_delay = {_DELAY_US}")
    yield
    session.query("SET GLOBAL binlog_group_commit_sync_delay = 0")


@pytest.fixture
def write(mysql: MySqlServer) -> Iterator[Callable[[str], None]]:
    """Execute a statement in the background, in a session of its own; all of them end before the test does."""
    threads: list[Thread] = []

    def run(sql: str) -> None:
        with connect(ConnectionOptions.from_url(mysql.url)) as writer:
            writer.query(sql)

    def start(sql: str) -> None:
        threads.append(Thread(target=run, args=[sql]))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def _rows(session: Session, table: str) -> int:
    return int(session.scalar(f"SELECT COUNT(*) FROM {table}"))


def _beyond(session: Session, before: Position) -> server.ServerPosition:
    """Wait for the position to move past `before`."""
    while not before < (now := server.log_position(session)).position:
        time.sleep(0.001)
    return now


# ---------------------------------------------------------------- the visibility hole


def test_a_position_runs_ahead_of_what_a_select_sees(
    session: Session, table: str, slow_commits: None, write: Callable[[str], None]
) -> None:
    before = server.log_position(session).position
    write(f"INSERT INTO {table} VALUES ()")
    _beyond(session, before)
    assert _rows(session, table) == 0  # else the tests below would prove nothing


@pytest.mark.usefixtures("slow_commits")
def test_a_gtid_is_executed_only_once_it_is_visible(session: Session, table: str, write: Callable[[str], None]) -> None:
    gtids = upto_the_next(session)
    before = server.log_position(session).position
    write(f"INSERT INTO {table} VALUES ()")
    _beyond(session, before)
    assert not server.executed_contains(session, gtids)
    while not server.executed_contains(session, gtids):
        time.sleep(0.001)
    assert _rows(session, table) == 1


@pytest.mark.usefixtures("slow_commits")
def test_statements_in_commit_hold_back_what_is_not_visible(
    session: Session, table: str, write: Callable[[str], None]
) -> None:
    before = server.log_position(session).position
    write(f"INSERT INTO {table} VALUES ()")
    _beyond(session, before)
    waits = server.commit_waits(session)
    assert len(waits) == 1
    while waits & server.commit_waits(session):
        time.sleep(0.001)
    assert _rows(session, table) == 1


@pytest.mark.usefixtures("slow_commits")
def test_a_statement_that_commits_often_holds_back_one_commit_only(
    session: Session, table: str, database: str, write: Callable[[str], None]
) -> None:
    session.query(f"CREATE PROCEDURE {database}.many() BEGIN {f'INSERT INTO {table} VALUES ();' * 3} END")
    before = server.log_position(session).position
    write(f"CALL {database}.many()")
    _beyond(session, before)
    waits = server.commit_waits(session)
    while waits & server.commit_waits(session):
        time.sleep(0.001)
    assert waits
    assert 1 <= _rows(session, table) <= 2  # not all three


def test_nobody_waits_on_an_idle_server(session: Session) -> None:
    deadline = time.monotonic() + 5
    while server.commit_waits(session):
        assert time.monotonic() < deadline


# ---------------------------------------------------------------- rights


@pytest.mark.parametrize(
    ("grants", "sees"),
    [
        (["PROCESS ON *.*", "SELECT ON performance_schema.*"], True),
        (["PROCESS ON *.*"], False),
        (["SELECT ON *.*"], False),
        (["REPLICATION CLIENT ON *.*"], False),
        (["ALL ON *.*"], True),
    ],
)
def test_the_process_right_is_known_before_it_is_relied_on(
    mysql: MySqlServer, session: Session, grants: list[str], sees: bool
) -> None:
    session.query("CREATE USER 'PROCESS'@'127.0.0.1' IDENTIFIED BY ''")  # its name must not be taken for the right
    try:
        for grant in grants:
            session.query(f"GRANT {grant} TO 'PROCESS'@'127.0.0.1'")
        with connect(ConnectionOptions("127.0.0.1", mysql.port, "PROCESS")) as user:
            assert server.has_process_right(user) is sees
    finally:
        session.query("DROP USER 'PROCESS'@'127.0.0.1'")


def test_the_process_right_by_a_role(mysql: MySqlServer, session: Session) -> None:
    session.query("CREATE ROLE watcher")
    session.query("GRANT PROCESS, SELECT ON *.* TO watcher")
    session.query("CREATE USER by_role@'127.0.0.1' IDENTIFIED BY '' DEFAULT ROLE watcher")
    try:
        with connect(ConnectionOptions("127.0.0.1", mysql.port, "by_role")) as user:
            assert server.has_process_right(user)
    finally:
        session.query("DROP USER by_role@'127.0.0.1'")
        session.query("DROP ROLE watcher")


# ---------------------------------------------------------------- the rest


def test_position_and_files(session: Session, table: str) -> None:
    first = server.log_position(session)
    session.query(f"INSERT INTO {table} VALUES ()")
    second = server.log_position(session)
    assert first.position < second.position
    assert GtidSet.parse(second.gtid_set).contains(GtidSet.parse(first.gtid_set))
    assert server.binary_logs(session)[-1] == (second.position.file, second.position.pos)
    session.query("FLUSH LOGS")
    third = server.log_position(session).position
    assert third.number == second.position.number + 1
    assert [name for name, _ in server.binary_logs(session)][-1] == third.file


def test_containment_of_gtids(session: Session) -> None:
    executed = str(session.scalar("SELECT @@GLOBAL.gtid_executed"))
    assert server.executed_contains(session, "")
    assert server.executed_contains(session, executed)
    assert not server.executed_contains(session, f"{session.server_uuid}:1-999999999")
    assert not server.executed_contains(session, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1")


def test_settings_have_lower_case_names(session: Session) -> None:
    found = server.settings(session)
    assert found["binlog_format"] == "ROW"
    assert all(name == name.lower() for name in found)
    alike = {name: value for name, value in found.items() if name.startswith("performance_schema")}
    assert server.settings(session, "performance_schema%") == alike
    assert server.settings(session, "GTID_MODE") == {"gtid_mode": found["gtid_mode"]}


def test_semi_sync_is_off_where_it_is_not_there(session: Session) -> None:
    assert server.semi_sync(session) == server.SemiSync(enabled=False, timeout_seconds=0.0, endless=False)


@pytest.mark.parametrize(("milliseconds", "endless"), [(10_000, False), (4_000_000_000, True)])
def test_semi_sync_settings(
    session: Session, monkeypatch: pytest.MonkeyPatch, milliseconds: int, endless: bool
) -> None:
    for era in ("source", "master"):
        said = {f"rpl_semi_sync_{era}_enabled": "ON", f"rpl_semi_sync_{era}_timeout": str(milliseconds)}
        monkeypatch.setattr(server, "settings", lambda *_, said=said: said)
        assert server.semi_sync(session) == server.SemiSync(True, milliseconds / 1000, endless)


@pytest.mark.parametrize("version", [(8, 1, 0), (8, 2, 0)])
def test_the_statement_for_the_position_is_chosen_by_version(session: Session, version: tuple[int, int, int]) -> None:
    """SHOW BINARY LOG STATUS is a syntax error on this 8.0 server, so asking for it shows that the version decides."""
    session.version = version
    if version < (8, 2, 0):
        assert server.log_position(session).position.pos > 4
    else:
        with pytest.raises(DefiniteError, match="1064"):
            server.log_position(session)


def test_a_row_is_as_long_as_the_server_stores_it(session: Session, database: str) -> None:
    """Chunks are sized by it: known once the table has been looked at, never of a table that is not there."""
    for size in (10, 3000):
        name = f"{database}.t{size}"
        session.query(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(4000))")
        session.query(f"INSERT INTO {name} (v) VALUES (REPEAT('x', {size}))")
        for _ in range(11):
            session.query(f"INSERT INTO {name} (v) SELECT v FROM {name}")
        session.query(f"ANALYZE TABLE {name}")
        said = server.row_bytes(session, database, f"t{size}")
        assert said is not None
        assert size < said < 3 * (size + 30)
    assert server.row_bytes(session, database, "none") is None
