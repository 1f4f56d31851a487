"""Rows of the shop: made up, varied where readers go wrong (scripts, accents, NULL, signs, empty text, fractions)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal

Row = tuple[object, ...]

_FIRST = ("Ada", "Zoë", "Łukasz", "Ингрид", "Σοφία", "小龙", "Ngọc", "علي", "O'Neil", "Bo\\b", "😀 Kim", "Straße")
_LAST = ("Lovelace", "Müller", "Петров", "Παππάς", "李", "Nguyễn", "חיים", "de la Cruz", "Ångström", "  Ray")
_CITIES = ("Zürich", "København", "Málaga", "Besançon", "Århus", "São Paulo", "Köln", "Lund", "", "Oslo ÿ")
_GOODS = ("Café", "crème", "ÄPFEL", "naïve", "Straße", "zebra", "Zoo", "aGG", "GbG", "œuf", "Łódka", "日本茶")
_NOTES = (None, None, None, "", "ring twice", "leave it with the neighbour; bitte läuten", "🎁", "a\nb\tc\0d")
_STATUS = ("open", "paid", "sent", "returned")
_EPOCH = datetime(2021, 1, 1)


def name(rng: random.Random) -> str:
    """A person's name, in one of many scripts."""
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def city(rng: random.Random) -> str | None:
    """A city that latin1 can spell, or None."""
    return None if rng.random() < 0.1 else rng.choice(_CITIES)


def note(rng: random.Random) -> str | None:
    """A note on an order."""
    return rng.choice(_NOTES)


def money(rng: random.Random, most: int) -> Decimal:
    """An amount with two digits, below `most`."""
    return Decimal(rng.randrange(most * 100)) / 100


def moment(rng: random.Random, digits: int = 6) -> datetime:
    """A time between 2021 and 2026, with that many digits of a second."""
    step = 10 ** (6 - digits)
    return _EPOCH + timedelta(seconds=rng.randrange(157_000_000), microseconds=rng.randrange(0, 1_000_000, step))


def product_code(rng: random.Random, number: int) -> str:
    """A key that differs from that of every other number, whatever the collation makes of its letters."""
    return f"{rng.choice(_GOODS)}-{number}"


def customer(rng: random.Random, key: int | None) -> Row:
    """One row of customers; without a key the server counts on."""
    return (
        key,
        name(rng),
        city(rng),
        f"c{rng.randrange(10**9)}@example.org" if rng.random() < 0.8 else None,
        rng.randrange(256),
        money(rng, 5000) - 1000,
        date(1930, 1, 1) + timedelta(days=rng.randrange(29_000)) if rng.random() < 0.7 else None,
        moment(rng),
        moment(rng, 3) if rng.random() < 0.6 else None,
    )


def product(rng: random.Random, number: int) -> Row:
    """One row of products."""
    return (
        product_code(rng, number),
        f"{rng.choice(_GOODS)} no. {number}",
        money(rng, 900),
        rng.randrange(-5, 1000),
        rng.random() * 100 if rng.random() < 0.8 else None,
        rng.randbytes(8) if rng.random() < 0.5 else None,
    )


def order(rng: random.Random, key: int | None, customer_id: int) -> Row:
    """One row of orders."""
    status = rng.choice(_STATUS)
    paid = moment(rng, 3) if status != "open" else None
    return key, customer_id, status, moment(rng), paid, money(rng, 9000), note(rng)


def order_line(rng: random.Random, order_id: int, line: int, code: str) -> Row:
    """One row of order_lines."""
    return order_id, line, code, rng.randrange(-9, 100), money(rng, 900)


def customers(rng: random.Random, count: int) -> Iterator[Row]:
    """Rows with the keys 1 to count."""
    return (customer(rng, key) for key in range(1, count + 1))


def products(rng: random.Random, count: int) -> Iterator[Row]:
    """Rows with the numbers 1 to count in their keys."""
    return (product(rng, number) for number in range(1, count + 1))


def orders(rng: random.Random, count: int, of_customers: int) -> Iterator[Row]:
    """Rows with the keys 1 to count."""
    return (order(rng, key, rng.randint(1, max(1, of_customers))) for key in range(1, count + 1))


def order_lines(rng: random.Random, count: int, of_orders: int, of_products: int) -> Iterator[Row]:
    """Rows spread evenly over the orders, whose lines begin at 1."""
    for n in range(count):
        row, line = n % max(1, of_orders) + 1, n // max(1, of_orders) + 1
        yield order_line(rng, row, line, product_code(rng, rng.randint(1, max(1, of_products))))
