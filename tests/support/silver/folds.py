"""Random histories in silver tables of random policies, and the comparison with their fold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

from lakehouse_cdc.model.changelog import Change, Op, fold
from lakehouse_cdc.model.history import histories, kept
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.definition.transform import NOTHING, Transform
from lakehouse_cdc.silver.forms import CURRENT, HISTORY, SOFT_DELETES
from tests.support.bronze_writer import Lake, commit_time
from tests.support.silver.histories import KINDS, TEXT, generated


@contextmanager
def lake_with(
    spark: SparkSession, rng: random.Random, tables: int, length: int, policy: Policy
) -> Iterator[tuple[Lake, list[Change]]]:
    """A lake for some kinds of tables, and all their changes; none is written yet.

    Where the policy freezes tables, they are of one kind, and go into one silver table.
    """
    kinds, one = rng.sample(range(KINDS), tables), rng.randrange(KINDS)
    drawn = [generated(rng, one if policy.freezes else kind, length, f"shop{kind}") for kind in kinds]
    with TemporaryDirectory() as folder:
        lake = Lake(spark, Path(folder), {schema.name: schema for schema, _ in drawn})
        lake.seen = partial(view, policy.transform)
        lake.layout = replace(lake.layout, into=(("*", "all of them"),) if policy.freezes else ())
        yield lake, [c for _, changes in drawn for c in changes]


TRANSFORM = Transform(
    rename={"TINY": "Tiny", "n": "number `n`", "text": "select", "id": "the id", "ke.y": "k", "line, no": "line"},
    computed={"twice": "Tiny * 2", "loud": "concat(`select`, '!')"},
    filter="Tiny >= 0",
)


def view(transform: Transform, schema: TableSchema) -> TableSchema:
    """The columns that silver has of a schema, by hand."""
    if transform == NOTHING:
        return schema
    columns = [replace(c, name=transform.silver_name(c.name)) for c in schema.captured]
    columns += [Column("twice", "int"), Column("loud", "text", **TEXT)]
    return replace(schema, columns=tuple(columns), key=tuple(map(transform.silver_name, schema.key)))


def seen(transform: Transform, changes: Iterable[Change]) -> list[Change]:
    """The changes as silver is to see them, in plain Python."""
    if transform == NOTHING:
        return list(changes)

    def image(held: Any) -> Any:
        if held is None:
            return None
        renamed = {transform.silver_name(name): value for name, value in held.items()}
        tiny, text = renamed["Tiny"], renamed["select"]
        return {**renamed, "twice": tiny and tiny * 2, "loud": None if text is None else text + "!"}

    def passes(held: Any) -> bool:
        return transform.filter is None or held is None or (held["tiny"] is not None and held["tiny"] >= 0)

    found = []
    for change in changes:
        if change.op in (Op.READ, Op.INSERT, Op.UPDATE, Op.DELETE):
            op, after = (change.op, change.after) if passes(change.after) else (Op.DELETE, None)
            change = replace(change, op=op, before=image(change.before), after=image(after))
        found.append(change)
    return found


def check(lake: Lake, changes: list[Change], policy: Policy, tables: Iterable[str] | None = None) -> None:
    """Silver is the fold of those changes, in each of the tables, or in all."""
    changes = seen(policy.transform, changes)

    def tracked(image: Any) -> Any:
        return [value for name, value in image.items() if policy.track is None or name in policy.track]

    wanted: Mapping[Any, Any]
    asked: Callable[[str], Mapping[Any, Any]]
    if policy.form is HISTORY:
        wanted, asked = histories(changes, tracked), lake.history
    elif policy.form is SOFT_DELETES:
        wanted = {
            name: (None if row.gone is None else commit_time(row.gone), row.seq, row.image)
            for name, row in kept(changes).items()
        }
        asked = lake.kept
    else:
        wanted, asked = fold(changes), lake.silver
    for table in lake.schemas if tables is None else tables:
        assert asked(table) == {name: row for name, row in wanted.items() if name[0] == table}


TRACKED: list[tuple[str, ...] | None] = [None, (), ("tiny", "ü. `x`"), ("moment", "text", "d", "price")]


def policies(rng: random.Random) -> Policy:
    """Tables of any form, each by itself or all in one; versions are of all columns or of some."""
    form = rng.choice([CURRENT, SOFT_DELETES, HISTORY])  # the keys of these histories are what others lack
    transform = rng.choice([NOTHING, replace(TRANSFORM, filter=None if form is SOFT_DELETES else TRANSFORM.filter)])
    policy = Policy(form=form, transform=transform, freezes=rng.random() < 0.4)
    return tracking(policy, rng.choice(TRACKED))


def tracking(policy: Policy, columns: tuple[str, ...] | None) -> Policy:
    """The same; a form with versions has one for each change of these of the source's columns (None: of all)."""
    names = None if columns is None else tuple(map(policy.transform.silver_name, columns))
    return replace(policy, track=names if policy.form is HISTORY else None)


def check_as_of(lake: Lake, rng: random.Random, transform: Transform) -> None:
    """Silver is the fold of all up to some seq, as of that."""
    for change in rng.sample(lake.written, 2):
        seq = max(change.seq - rng.randint(0, 1), min(c.seq for c in lake.written if c.table == change.table))
        key = view(transform, lake.schemas[change.table]).key
        found = {tuple(image[k] for k in key): (at, image)
                 for at, image in lake.rows_at(change.table, seq)}  # fmt: skip
        wanted = fold(seen(transform, [c for c in lake.written if c.table == change.table and c.seq <= seq]))
        assert found == {key: row for (_, key), row in wanted.items()}
