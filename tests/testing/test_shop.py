"""The shop on the real server: what is loaded, what is written, and that the counters tell the truth."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pymysql
import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter, shop_writes
from lakehouse_cdc.testing.shop import TABLES
from lakehouse_cdc.testing.shop_writes import _ACTIONS, Tally, _Transaction
from tests.support.positions import binlog_end


@pytest.fixture
def shop(mysql: MySqlServer, database: str) -> Shop:
    """An empty shop."""
    shop = Shop(mysql.connect, database, seed=7)
    shop.create()
    return shop


def binlog_rows(mysql: MySqlServer, start: tuple[str, int], database: str) -> Counter[str]:
    """Rows by kind in the binlog from a position on, as an independent reader counts them."""
    kinds = {WriteRowsEvent: "inserted", UpdateRowsEvent: "updated", DeleteRowsEvent: "deleted"}
    reader = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": mysql.port, "user": "root", "password": ""},
        server_id=34100,
        log_file=start[0],
        log_pos=start[1],
        resume_stream=True,
        only_schemas=[database],
        only_events=list(kinds),
    )
    with closing(reader):
        counts: Counter[str] = Counter()
        for event in reader:
            counts[kinds[type(event)]] += len(event.rows)
    return counts


@pytest.mark.parametrize("rows", [0, 1, 49, 5000])
def test_load_fills_exactly_and_the_same_each_time(shop: Shop, mysql: MySqlServer, rows: int) -> None:
    assert sum(shop.load(rows).values()) == rows
    assert sum(shop.counts().values()) == rows
    other = Shop(mysql.connect, f"{shop.database}_again", seed=7)
    other.create()
    other.load(rows)
    with closing(mysql.connect()) as connection, connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"CHECKSUM TABLE {shop.database}.{table}, {other.database}.{table}")
            assert len({checksum for _, checksum in cursor.fetchall()}) == 1
    other.drop()


def test_creating_what_is_there_logs_nothing(shop: Shop, mysql_client: pymysql.Connection[Any]) -> None:
    """A reader of changes must not stop at it when a demo or a test goes on."""
    before = binlog_end(mysql_client)
    shop.create()
    assert binlog_end(mysql_client) == before


def test_every_value_that_readers_stumble_over_is_there(shop: Shop, mysql_client: pymysql.Connection[Any]) -> None:
    shop.load(20_000)
    wanted = {
        "customers": ["city IS NULL", "city = ''", "seen IS NULL", "born < '1970-01-01'", "balance < 0", "level > 127",
                      "CHAR_LENGTH(name) < LENGTH(name)", "name LIKE '%😀%'", "MICROSECOND(registered) % 1000 > 0"],
        "products": ["weight IS NULL", "digest IS NULL", "stock < 0", "code LIKE 'caf%' AND code LIKE BINARY 'Caf%'"],
        "orders": ["paid IS NULL", "note IS NULL", "note = ''", "note LIKE '%\\0%'"],
        "order_lines": ["line > 1", "quantity < 0"],
    }  # fmt: skip
    with mysql_client.cursor() as cursor:
        for table, conditions in wanted.items():
            for condition in conditions:
                cursor.execute(f"SELECT COUNT(*) FROM {shop.database}.{table} WHERE {condition}")
                row: Any = cursor.fetchone()
                assert row[0] > 0, f"{table}: {condition}"


def test_the_counters_are_those_of_the_binlog(
    shop: Shop, mysql: MySqlServer, mysql_client: pymysql.Connection[Any]
) -> None:
    before = shop.load(3000)
    start = binlog_end(mysql_client)
    with ShopWriter(shop, seed=1) as first, ShopWriter(shop, seed=2) as second:
        while first.transactions < 400 or second.transactions < 400:
            first.check()
            second.check()
            time.sleep(0.01)
    total = Tally()
    total.add(first.tally)
    total.add(second.tally)
    found = binlog_rows(mysql, start, shop.database)
    assert found == {"inserted": total.inserted, "updated": total.updated, "deleted": total.deleted}
    assert min(found.values()) > 0
    assert total.rolled_back > 0
    assert sum(shop.counts().values()) == sum(before.values()) + total.inserted - total.deleted


@pytest.mark.long
@pytest.mark.parametrize("rows", [0, 600])
@pytest.mark.parametrize("action", _ACTIONS, ids=lambda action: action.__name__.strip("_"))
def test_each_kind_of_transaction_on_a_full_and_an_empty_shop(shop: Shop, action: Any, rows: int) -> None:
    shop.load(rows)
    rng = random.Random(11)
    total = Tally()
    with closing(shop.open()) as connection, connection.cursor() as cursor:
        for _ in range(10):
            transaction = _Transaction(cursor, rng)
            action(transaction)
            connection.commit()
            total.add(transaction.tally)
    if rows:
        assert total.inserted + total.updated + total.deleted > 0


def test_keys_change_in_case_alone_and_come_back(shop: Shop, mysql_client: pymysql.Connection[Any]) -> None:
    """The transactions that a careless reader gets wrong do happen."""
    shop.load(300)
    rng = random.Random(3)
    renamed = returned = False
    dead: set[int] = set()

    def keys(table: str, key: str) -> set[Any]:
        with mysql_client.cursor() as cursor:
            cursor.execute(f"SELECT {key} FROM {shop.database}.{table}")
            rows: Any = cursor.fetchall()
            return {row[0] for row in rows}

    codes, ids = keys("products", "code"), keys("customers", "id")
    with closing(shop.open()) as connection, connection.cursor() as cursor:
        for action in (shop_writes._forget, shop_writes._return, shop_writes._rename_product) * 40:
            action(_Transaction(cursor, rng))
            connection.commit()
            codes_now, ids_now = keys("products", "code"), keys("customers", "id")
            gone, new = codes - codes_now, codes_now - codes
            renamed |= bool(gone) and {code.casefold() for code in gone} == {code.casefold() for code in new}
            returned |= bool(dead & ids_now)
            dead = (dead | (ids - ids_now)) - ids_now
            codes, ids = codes_now, ids_now
    assert (renamed, returned) == (True, True)


def test_a_writer_keeps_its_rate_and_stops(shop: Shop) -> None:
    shop.load(500)
    began = time.monotonic()
    writer = ShopWriter(shop, rate=50).start()
    time.sleep(1.5)
    writer.stop()
    took = time.monotonic() - began
    assert 0 < writer.transactions <= 50 * took + 2
    assert writer.transactions == writer.tally.transactions
    before = writer.transactions
    time.sleep(0.2)
    assert writer.transactions == before


def test_a_writer_surfaces_what_it_failed_with(shop: Shop) -> None:
    shop.load(500)
    writer = ShopWriter(shop).start()
    shop.drop()
    with pytest.raises(pymysql.MySQLError):
        writer.stop()
    with pytest.raises(pymysql.MySQLError):
        writer.check()


def test_write_once_writes_once(shop: Shop) -> None:
    before = shop.load(500)
    rng = random.Random(5)
    tallies = [shop.write_once(rng) for _ in range(40)]
    assert {tally.transactions + tally.rolled_back for tally in tallies} == {1}
    grown = sum(tally.inserted - tally.deleted for tally in tallies)
    assert sum(shop.counts().values()) == sum(before.values()) + grown


def test_run_ends_when_told_before_it_began(shop: Shop) -> None:
    stop = threading.Event()
    stop.set()
    assert shop.run(stop) == Tally()
