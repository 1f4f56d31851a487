"""Exactness on a real server: at every committed offset, fold(bronze) is the source at that position.

One connection writes (see `world`), at every named moment of the algorithm and between the batches, and remembers the
whole state at each position. Each batch is executed twice, in two "processes", with more writes in between, and must
give the same bytes. Tables have keys that have hurt others.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.positions import binlog_end
from tests.support.servers import connected, row_metadata
from tests.support.source.play import (
    kinds_of,
    play,
)
from tests.support.source.world import KEYLESS, KEYS, MARIADB_KEYS, UNIQUE

shapes = st.lists(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3)


def examples(count: int) -> settings:
    """Without shrinking: an example takes seconds."""
    return settings(
        max_examples=count, deadline=None, database=None, phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@examples(12)
@given(shapes, st.integers(0, 2**32))
def test_every_offset_is_exact(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed)


@pytest.mark.long
@examples(150)
@given(shapes, st.integers(0, 2**32))
def test_every_offset_is_exact_many_times(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed)


@pytest.mark.parametrize("kind", sorted(KEYS))
def test_each_kind_of_key(mysql: MySqlServer, tmp_path: Path, kind: str) -> None:
    play(mysql, tmp_path, [(kind,), ("few", kind)], seed=len(kind))


@pytest.mark.parametrize("seed", range(1))
def test_every_offset_is_exact_on_every_server(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    kinds = kinds_of(any_server)
    random.Random(seed).shuffle(kinds)
    play(any_server, tmp_path, [(kinds[0],), tuple(kinds[1:3]), tuple(kinds[3:6])], seed)


@pytest.mark.parametrize("seed", range(2))
def test_tables_that_are_truncated(mysql: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(mysql, tmp_path, [("int",), ("few", "general_ci"), ("bin",)], seed, {"truncate": 0.1})


@pytest.mark.long
@examples(100)
@given(shapes, st.integers(0, 2**32))
def test_tables_that_are_truncated_many_times(
    mysql: MySqlServer, tmp_path_factory: Any, kinds: list[tuple[str, ...]], seed: int
) -> None:
    play(mysql, tmp_path_factory.mktemp("schemas"), kinds, seed, {"truncate": 0.1})


@pytest.mark.parametrize("seed", range(1))
def test_tables_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"alter": 0.2, "truncate": 0.02})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130))
def test_tables_that_are_altered_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci"), ("bin",)], seed, {"alter": 0.2, "truncate": 0.02})


@pytest.mark.parametrize("seed", range(1))
def test_tables_that_are_replaced(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"replace": 0.1, "alter": 0.05})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 240))
def test_tables_that_are_replaced_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(
        any_server,
        tmp_path,
        [("int",), ("few", "general_ci"), ("bin",)],
        seed,
        {"replace": 0.1, "alter": 0.1, "truncate": 0.02},
    )


@pytest.mark.parametrize("seed", range(2))
def test_tables_that_are_created(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, {"create": 0.1, "replace": 0.03})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300, 330))
def test_tables_that_are_created_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    often = {"create": 0.1, "replace": 0.05, "alter": 0.05, "truncate": 0.02}
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, often)


@pytest.mark.parametrize("seed", range(1))
def test_xa_transactions(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, xa=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 40))
def test_xa_transactions_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed, xa=True)


@pytest.mark.parametrize("any_server", MARIADB, indirect=True)
@pytest.mark.parametrize("kind", sorted(MARIADB_KEYS))
def test_the_keys_of_mariadb(any_server: MySqlServer, tmp_path: Path, kind: str) -> None:
    play(any_server, tmp_path, [(kind,), ("few", kind)], seed=len(kind))


@pytest.mark.parametrize("any_server", ["mysql-8.0", "mysql-9", *MARIADB], indirect=True)
def test_compressed_transactions(any_server: MySqlServer, tmp_path: Path) -> None:
    mariadb = any_server.version in MARIADB
    with closing(connected(any_server)) as connection, connection.cursor() as cursor:
        if mariadb:
            cursor.execute("SET GLOBAL log_bin_compress = ON, log_bin_compress_min_len = 10")
        try:
            begin = binlog_end(connection)
            session = "" if mariadb else ", binlog_transaction_compression = ON"
            play(any_server, tmp_path, [("int",), ("few", "general_ci")], seed=1, session=session, xa=True)
        finally:
            if mariadb:
                cursor.execute("SET GLOBAL log_bin_compress = OFF, log_bin_compress_min_len = DEFAULT")
        cursor.execute("SHOW BINARY LOGS")
        files = [str(row[0]) for row in cursor.fetchall() if row[0] >= begin[0]]
        kinds: Counter[str] = Counter()
        for file in files:
            cursor.execute(f"SHOW BINLOG EVENTS IN '{file}'")
            kinds.update(str(row[2]) for row in cursor.fetchall() if (file, row[1]) >= begin)
    compressed = sum(n for kind, n in kinds.items() if "ompressed" in kind or kind == "Transaction_payload")
    assert compressed >= 10, kinds


@pytest.mark.parametrize("seed", range(2))
def test_tables_without_a_key(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    """As multisets; beside one that has a key."""
    play(any_server, tmp_path, [(KEYLESS, "few"), (KEYLESS, "few", "general_ci"), ("int",)], seed)


@pytest.mark.parametrize("seed", range(1))
def test_tables_without_a_key_that_are_altered(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    play(any_server, tmp_path, [(KEYLESS, "few"), (KEYLESS, "int")], seed, {"alter": 0.1, "truncate": 0.1})


@pytest.mark.parametrize("seed", range(2))
def test_tables_with_a_unique_key(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    """As if it were the primary one; beside one that has that."""
    play(any_server, tmp_path, [(UNIQUE, "int"), (UNIQUE, "few", "general_ci"), (UNIQUE, "few", "double")], seed)


@pytest.mark.parametrize("metadata", ["FULL", "least"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_tables_whose_key_changes(any_server: MySqlServer, tmp_path: Path, metadata: str, seed: int) -> None:
    often = {"key": 0.1, "alter": 0.05, "truncate": 0.02}
    with row_metadata(any_server, metadata):
        play(any_server, tmp_path, [(UNIQUE, "int"), (UNIQUE, "few", "general_ci"), (UNIQUE, "double")], seed, often)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(400, 440))
def test_tables_whose_key_changes_many_times(any_server: MySqlServer, tmp_path: Path, seed: int) -> None:
    kinds = [(UNIQUE, "int"), (UNIQUE, "few", "general_ci"), (UNIQUE, "double")]
    play(any_server, tmp_path, kinds, seed, {"key": 0.1, "alter": 0.1, "truncate": 0.02})
