"""Decimals in canonical form: every digit that the type has, for any value of any type of a decimal."""

from __future__ import annotations

import random
from decimal import Context, Decimal

from pyspark.sql import SparkSession

from lakehouse_cdc.verify.canonical import of_typed

_EXACT = Context(prec=60)


def test_decimals_have_all_their_digits(spark: SparkSession, seed: int) -> None:
    rng = random.Random(seed)
    values: dict[str, list[Decimal | None]] = {}
    for precision, scale in [(38, 30), (38, 38), (38, 7), (38, 6), (38, 0), (9, 9), (20, 10)]:
        greatest = 10**precision - 1
        units = [0, 1, -1, greatest, -greatest, *(rng.randint(-greatest, greatest) for _ in range(9))]
        values[f"decimal({precision},{scale})"] = [None, *(_EXACT.scaleb(Decimal(n), -scale) for n in units)]
    names = {kind: f"c{i}" for i, kind in enumerate(values)}
    rows = spark.createDataFrame(
        [*zip(*values.values(), strict=True)], ", ".join(f"{names[kind]} {kind}" for kind in values)
    )
    canonical = rows.select(*(of_typed(names[kind], kind).alias(names[kind]) for kind in values)).collect()
    for kind, held in values.items():
        wanted = [None if value is None else f"{value:f}" for value in held]
        assert [row[names[kind]] for row in canonical] == wanted, kind
