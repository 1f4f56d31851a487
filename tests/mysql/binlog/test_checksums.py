"""Checksums of real logs are right, whichever server wrote them; a bit that is turned over is noticed."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.binlog.words import FORMAT, HEADER, ROTATE
from lakehouse_cdc.images.hashing.crc32 import TABLES, pass_right
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.checksums import Checksums
from lakehouse_cdc.testing import MySqlServer
from tests.support.binlog_log import Buffer, Log, joined, starts
from tests.support.images.guarded import guarded_copy
from tests.support.payloads import sealed

pytestmark = pytest.mark.every_server


def test_the_sum_is_zlibs() -> None:
    dice = random.Random(1)
    for size in (*range(80), 8192, 100_003):
        made = sealed(bytes(4) + b"\x1e" + bytes(HEADER - 5) + dice.randbytes(size))
        assert pass_right(guarded_copy(made), 0, True, TABLES) == made.size
        wrong = made.copy()
        wrong[dice.choice([i for i in range(made.size) if not 4 <= i < 13])] ^= 1 << dice.randrange(8)
        assert pass_right(guarded_copy(wrong), 0, True, TABLES) == 0
        assert pass_right(guarded_copy(wrong), 0, False, TABLES) == made.size
        assert zlib.crc32(made[:-4].tobytes()) == int.from_bytes(made[-4:].tobytes(), "little")


@pytest.fixture
def log(any_server: MySqlServer, any_database: str) -> Iterator[Log]:
    with ExitStack() as stack:
        found = Log(any_server, stack)
        found.run(f"USE {any_database}", "CREATE TABLE t (i INT PRIMARY KEY, v TEXT)")
        yield found


def sample(log: Log, checksum: str = "CRC32") -> tuple[Position, Buffer]:
    """Files from their begin on, and the last one, which is in use."""
    log.run(f"SET GLOBAL binlog_checksum = {checksum}", "FLUSH BINARY LOGS")
    start = Position(log.end.file, 4)
    log.run("INSERT INTO t VALUES (1, 'x'), (2, REPEAT('y', 9000))", "UPDATE t SET v = 'z'", "FLUSH BINARY LOGS")
    log.run("DELETE FROM t")
    return start, joined(log.buffers(start))


def test_what_servers_send_is_right_and_every_other_bit_is_wrong(log: Log) -> None:
    start, buffer = sample(log)
    Checksums().verify(buffer, str(start))
    middle = log.end
    log.run("INSERT INTO t VALUES (3, 'x')")
    Checksums().verify(joined(log.buffers(middle)), str(middle))  # begins with the file's format description, too
    dice, places = random.Random(1), [*starts(buffer), buffer.size]
    for _ in range(300):
        n = dice.randrange(len(places) - 1)
        begin, end, kind = places[n], places[n + 1], buffer[places[n] + 4]
        at = dice.choice([*range(begin, begin + 4), *range(begin + 18, end)])
        if (kind == ROTATE and buffer[begin + 17] & 0x20) or (kind == FORMAT and at == end - 5):
            continue  # made up; the byte that says whether there are checksums
        damaged = buffer.copy()
        damaged[at] ^= 1 << dice.randrange(8)
        with pytest.raises(DefiniteError):
            Checksums().verify(damaged, str(start))


def test_without_checksums(log: Log) -> None:
    try:
        start, buffer = sample(log, "NONE")
    finally:
        log.run("SET GLOBAL binlog_checksum = CRC32")
    Checksums().verify(buffer, str(start))
    damaged = buffer.copy()
    damaged[-1] ^= 1
    Checksums().verify(damaged, str(start))
    log.run("INSERT INTO t VALUES (3, 'x')")
    both = joined(log.buffers(start))
    Checksums().verify(both, str(start))
    both[-1] ^= 1
    with pytest.raises(DefiniteError, match="checksum of a binlog event is wrong"):
        Checksums().verify(both, str(start))


def test_what_does_not_fit_is_left_to_the_scan(log: Log) -> None:
    start, buffer = sample(log)
    for cut in (0, 1, 18, 19, buffer.size - 1):
        Checksums().verify(guarded_copy(np.ascontiguousarray(buffer[:cut])), str(start))
