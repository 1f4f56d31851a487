"""The shop's transactions, each chosen at random: what a reader of changes must get right.

Several tables in one transaction, many changes of one row in one transaction, key updates (also such as change nothing
but the case of a letter), a key deleted and inserted again (in one transaction and in two), updates of many rows,
updates that change nothing, rollbacks of all or (to a savepoint) of a part.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pymysql
from pymysql.constants import ER

from lakehouse_cdc.testing import shop_rows


@dataclass
class Tally:
    """What was committed: transactions, and rows as the binlog counts them. `rolled_back` are transactions that left
    nothing."""

    transactions: int = 0
    rolled_back: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def add(self, other: Tally) -> None:
        """Count what another tally holds, too."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class _Transaction:
    """One open transaction: statements by kind, counted."""

    def __init__(self, cursor: Any, rng: random.Random) -> None:
        self._cursor = cursor
        self.rng = rng
        self.tally = Tally()

    def insert(self, table: str, rows: Sequence[shop_rows.Row]) -> None:
        places = "(" + ",".join(["%s"] * len(rows[0])) + ")"
        values = [value for row in rows for value in row]
        self._cursor.execute(f"INSERT INTO {table} VALUES {','.join([places] * len(rows))}", values)
        self.tally.inserted += self._cursor.rowcount

    def update(self, statement: str, *values: object) -> None:
        self._cursor.execute(f"UPDATE {statement}", values)
        self.tally.updated += self._cursor.rowcount

    def delete(self, statement: str, *values: object) -> None:
        self._cursor.execute(f"DELETE FROM {statement}", values)
        self.tally.deleted += self._cursor.rowcount

    def pick(self, table: str, key: str) -> int | None:
        """A random key that is there, or None where the table is empty."""
        # derived tables, so that the aggregate and the range each use the index
        extent = self._one(f"SELECT MIN({key}), MAX({key}) FROM {table}")
        if extent is None or extent[0] is None:
            return None
        at = self.rng.randint(extent[0], extent[1])
        one = self._one(f"SELECT {key} FROM {table} WHERE {key} >= %s ORDER BY {key} LIMIT 1", at)
        return None if one is None else int(one[0])

    def pick_product(self) -> str | None:
        at = shop_rows.product_code(self.rng, self.rng.randrange(10_000))
        one = self._one("SELECT code FROM products WHERE code >= %s ORDER BY code LIMIT 1", at)
        one = one or self._one("SELECT code FROM products ORDER BY code LIMIT 1")
        return None if one is None else str(one[0])

    def absent_customer(self) -> int | None:
        """A key that was taken once and is not now, if a few guesses find one."""
        highest = self._one("SELECT MAX(id) FROM customers")
        for _ in range(5):
            guess = self.rng.randint(1, (highest and highest[0]) or 1)
            if self._one("SELECT id FROM customers WHERE id = %s", guess) is None:
                return guess
        return None

    def inserted_id(self) -> int:
        return int(self._cursor.lastrowid)

    def savepoint(self) -> None:
        self._cursor.execute("SAVEPOINT here")
        self._kept = Tally()
        self._kept.add(self.tally)

    def rollback_to_savepoint(self) -> None:
        self._cursor.execute("ROLLBACK TO SAVEPOINT here")
        self.tally = self._kept

    def _one(self, query: str, *values: object) -> Any:
        self._cursor.execute(query, values)
        return self._cursor.fetchone()


def write_transaction(connection: pymysql.Connection[Any], rng: random.Random, tally: Tally) -> None:
    """Run one random transaction on a connection without autocommit and count it in `tally`.

    A deadlock, a lock wait that times out or a key that another writer took first ends it as a rollback; any other
    error is raised.
    """
    action = rng.choices(_ACTIONS, _WEIGHTS)[0]
    with connection.cursor() as cursor:
        transaction = _Transaction(cursor, rng)
        try:
            connection.begin()
            action(transaction)
            if rng.random() < 0.05:
                connection.rollback()
                tally.rolled_back += 1
                return
            connection.commit()
        except pymysql.MySQLError as error:
            if error.args[0] not in (ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.DUP_ENTRY):
                raise
            connection.rollback()
            tally.rolled_back += 1
            return
    transaction.tally.transactions = 1
    tally.add(transaction.tally)


def _register(t: _Transaction) -> None:
    t.insert("customers", [shop_rows.customer(t.rng, None) for _ in range(t.rng.choice((1, 1, 1, 3, 40)))])


def _place_order(t: _Transaction) -> None:
    customer = t.pick("customers", "id")
    if customer is None:
        return
    t.insert("orders", [shop_rows.order(t.rng, None, customer)])
    order = t.inserted_id()
    codes = [t.pick_product() or "nothing" for _ in range(t.rng.randint(1, 5))]
    t.insert("order_lines", [shop_rows.order_line(t.rng, order, n, code) for n, code in enumerate(codes, start=1)])
    for code in codes:
        t.update("products SET stock = stock - 1 WHERE code = %s", code)
    t.update("customers SET balance = balance - %s, seen = NOW(3) WHERE id = %s", shop_rows.money(t.rng, 50), customer)


def _pay(t: _Transaction) -> None:
    t.update(
        "orders SET status = 'paid', paid = NOW(3), note = %s WHERE id = %s",
        shop_rows.note(t.rng),
        t.pick("orders", "id"),
    )


def _move_house(t: _Transaction) -> None:
    customer, rng = t.pick("customers", "id"), t.rng
    for _ in range(rng.choice((1, 1, 10))):
        t.update("customers SET city = %s, name = %s WHERE id = %s", shop_rows.city(rng), shop_rows.name(rng), customer)
    t.update("customers SET level = level WHERE id = %s", customer)  # changes nothing, and is not logged


def _raise_levels(t: _Transaction) -> None:
    customer = t.pick("customers", "id")
    t.update(
        "customers SET level = (level + 1) %% 256, born = IF(born IS NULL, '1999-12-31', NULL) "
        "WHERE id >= %s ORDER BY id LIMIT %s",
        customer,
        t.rng.choice((20, 200, 1000)),
    )


def _cancel(t: _Transaction) -> None:
    order = t.pick("orders", "id")
    t.delete("order_lines WHERE order_id = %s", order)
    t.delete("orders WHERE id = %s", order)


def _forget(t: _Transaction) -> None:
    t.delete("customers WHERE id >= %s ORDER BY id LIMIT %s", t.pick("customers", "id"), t.rng.choice((1, 1, 5)))


def _return(t: _Transaction) -> None:
    """A customer who was deleted comes back under the old key; or one leaves and comes back at once."""
    gone = t.absent_customer() if t.rng.random() < 0.5 else None
    key = gone or t.pick("customers", "id")
    if key is None:
        return
    if gone is None:
        t.delete("customers WHERE id = %s", key)
    t.insert("customers", [shop_rows.customer(t.rng, key)])


def _renumber(t: _Transaction) -> None:
    """Keys change: of a customer to a free one, of a line within its order."""
    free = t.absent_customer()
    if free is not None:
        t.update("customers SET id = %s WHERE id = %s", free, t.pick("customers", "id"))
    t.update("order_lines SET line = line + 7 WHERE order_id = %s ORDER BY line DESC", t.pick("orders", "id"))


def _rename_product(t: _Transaction) -> None:
    code = t.pick_product()
    if code is None:
        return
    number = code.rsplit("-", 1)[1]
    new = t.rng.choice((code.swapcase(), code.upper(), shop_rows.product_code(t.rng, int(number))))
    t.update("products SET code = %s WHERE code = %s", new, code)


def _restock(t: _Transaction) -> None:
    """Deliveries; some are undone before the end."""
    t.insert("products", [shop_rows.product(t.rng, t.rng.randrange(10**6, 10**9))])
    t.savepoint()
    t.update("products SET stock = stock + 10 WHERE code >= %s ORDER BY code LIMIT 30", t.pick_product())
    t.delete("products WHERE code = %s", t.pick_product())
    if t.rng.random() < 0.5:
        t.rollback_to_savepoint()


_CHOICES: dict[Callable[[_Transaction], None], int] = {
    _register: 10,
    _place_order: 30,
    _pay: 20,
    _move_house: 15,
    _raise_levels: 2,
    _cancel: 6,
    _forget: 5,
    _return: 5,
    _renumber: 4,
    _rename_product: 4,
    _restock: 4,
}
_ACTIONS, _WEIGHTS = list(_CHOICES), list(_CHOICES.values())
