"""ALTER TABLE, drawn at random: what a statement does to the columns, the key and the values of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from lakehouse_cdc.schema.table import Column
from tests.support.silver.histories import TEXT

POOLS: dict[str, tuple[Any, ...]] = {
    "tinyint": (-128, 0, 7),
    "int": (-(2**31), 5, 7),
    "bigint": (-(2**63), 5, 7),
    "float": (0.5, -1.25),
    "double": (0.1, -1e308),
    "decimal": (Decimal("1.10"), Decimal("-7.00")),
    "text": ("", "5", "naïve 𝄞", "2020-01-01"),
    "varbinary": (b"", b"\x00\xff"),
    "date": (date(2020, 1, 1), date(1999, 12, 31)),
    "datetime": (datetime(2020, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
}
_WIDER = {"tinyint": "int", "int": "bigint", "float": "double", "date": "datetime"}
_CONSTANTS = ("tinyint", "int", "bigint", "float", "decimal", "text")  # whose text says them
ODD_NAMES = ("a", "A", "b", "n", "N", "ü. `x`", "Ü. `X`", "o'k", "c,d")
PLAIN_NAMES = ("a", "A", "b", "n", "N", "ü", "Ü", "o-k", "c$d")  # that need no column mapping


def made(name: str, kind: str) -> Column:
    """A column of that type."""
    if kind == "text":
        return Column(name, kind, **TEXT)
    return Column(name, kind, precision=10, scale=2) if kind == "decimal" else Column(name, kind)


def moment(value: Any) -> Any:
    """A date as the beginning of its day."""
    return datetime(value.year, value.month, value.day) if type(value) is date else value


@dataclass
class Alteration:
    """One statement as it is put together: (column, the name that it had or None), and what silver cannot know.

    `values` draw a column's new values; `doubtful` are those that silver gets wrong until they are read. `constants`
    are draws of one value, with its text, which silver is told. New names are of `free_names`.
    """

    columns: list[tuple[Column, str | None]]
    key: list[str]
    values: dict[str, Callable[[int, Any], Any]] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    rekeyed: bool = False
    constants: list[tuple[Callable[[int, Any], Any], str]] = field(default_factory=list)
    free_names: Sequence[str] = ODD_NAMES

    def names(self) -> set[str]:
        return {c.name.lower() for c, _ in self.columns}

    def filled(self) -> dict[str, str]:
        """What all rows hold in some of the new columns, under the names that these have in the end."""
        texts = {id(draw): text for draw, text in self.constants}
        return {name: texts[id(draw)] for name, draw in self.values.items() if id(draw) in texts}

    def put(self, at: int, column: Column, source: str | None) -> None:
        """Declare the column at that place anew; its name may be another."""
        was = self.columns[at][0].name
        self.key = [column.name if name == was else name for name in self.key]
        if was in self.values:
            self.values[column.name] = self.values.pop(was)
        if was in self.doubtful:
            self.doubtful = (self.doubtful - {was}) | {column.name}
        self.columns[at] = (column, source)


def _others(rng: Random, it: Alteration) -> list[int]:
    """The places of captured columns that are not of the key, in random order."""
    found = [i for i, (c, _) in enumerate(it.columns) if c.name not in it.key and c.captured]
    return rng.sample(found, len(found))


def _free(rng: Random, it: Alteration, but: str = "") -> str | None:
    """A name that is not taken, save by the column `but`."""
    free = [n for n in it.free_names if n != but and n.lower() not in it.names() - {but.lower()}]
    return rng.choice(free) if free else None


def _drawn(rng: Random, kind: str) -> Callable[[int, Any], Any]:
    return lambda _n, _held: rng.choice([None, *POOLS[kind]])


def add(rng: Random, it: Alteration, kind: str = "") -> None:
    """A column of NULLs, or of a default."""
    name, kind = _free(rng, it), kind or rng.choice(sorted(POOLS))
    if name is None:
        return
    it.columns.insert(rng.randint(0, len(it.columns)), (made(name, kind), None))
    if rng.random() < 0.3:
        value = rng.choice(POOLS[kind])
        it.values[name] = draw = lambda _n, _held: value
        if kind in _CONSTANTS and rng.random() < 0.5:
            it.constants.append((draw, str(value)))
        else:
            it.doubtful.add(name)


def drop(rng: Random, it: Alteration) -> None:
    """A column, which silver keeps."""
    for at in _others(rng, it)[:1]:
        it.doubtful.discard(it.columns[at][0].name)
        it.values.pop(it.columns[at][0].name, None)
        del it.columns[at]


def replaced(rng: Random, it: Alteration, kind: str = "") -> None:
    """DROP and ADD of one name, not always in the same case."""
    for at in _others(rng, it)[:1]:
        name, kind = it.columns[at][0].name, kind or rng.choice(sorted(POOLS))
        it.doubtful.discard(name)
        it.values.pop(name, None)
        it.columns[at] = (made(rng.choice([name, name.upper()]), kind), None)


def rename(rng: Random, it: Alteration) -> None:
    """Any column, also one of the key; to a free name, or to its own in another case."""
    at = rng.randrange(len(it.columns))
    column, source = it.columns[at]
    to = rng.choice([_free(rng, it, but=column.name), column.name.swapcase()])
    if to is not None and column.captured and to.lower() not in it.names() - {column.name.lower()}:
        it.put(at, replace(column, name=to), source)


def swap(rng: Random, it: Alteration) -> None:
    """Two columns, or three, take each other's names."""
    places = _others(rng, it)[: rng.choice([2, 3])]
    if len(places) < 2:
        return
    held = [it.columns[at] for at in places]
    values = {c.name: it.values.pop(c.name) for c, _ in held if c.name in it.values}
    doubtful = {c.name for c, _ in held} & it.doubtful
    it.doubtful -= doubtful
    for at, (column, source), (other, _) in zip(places, held, [*held[1:], held[0]], strict=True):
        it.columns[at] = (replace(column, name=other.name), source)
        if column.name in values:
            it.values[other.name] = values[column.name]
        if column.name in doubtful:
            it.doubtful.add(other.name)


def take_the_name(rng: Random, it: Alteration) -> None:
    """DROP one, RENAME another to its name."""
    places = _others(rng, it)[:2]
    if len(places) == 2 and not it.doubtful:
        gone, stays = (it.columns[at] for at in places)
        it.put(places[1], replace(stays[0], name=gone[0].name), stays[1])
        del it.columns[places[0]]


def widen(rng: Random, it: Alteration) -> None:
    """A type that holds the same values, of the key's columns too."""
    places = [i for i, (c, _) in enumerate(it.columns) if c.captured and (c.type in _WIDER or c.type == "decimal")]
    if not places:
        return
    at = rng.choice(places)
    column, source = it.columns[at]
    if column.type == "decimal" and (column.precision or 0) > 30:
        return
    if column.type == "decimal":
        it.put(at, replace(column, precision=(column.precision or 0) + 4, scale=(column.scale or 0) + 2), source)
    elif column.name not in it.key or column.type in ("tinyint", "int"):
        it.put(at, replace(column, type=_WIDER[column.type]), source)


def retype(rng: Random, it: Alteration) -> None:
    """Any other type: the values may be anything then."""
    for at in _others(rng, it)[:1]:
        column, source = it.columns[at]
        kind = rng.choice([k for k in sorted(POOLS) if k != column.type])
        it.columns[at] = (made(column.name, kind), source)
        it.values[column.name] = _drawn(rng, kind)
        it.doubtful.add(column.name)


def show_or_hide(rng: Random, it: Alteration) -> None:
    """A rename that makes the user's choice of columns fall on others."""
    hidden = [i for i, (c, _) in enumerate(it.columns) if not c.captured]
    if hidden and (name := _free(rng, it)) is not None:
        at = rng.choice(hidden)
        column, source = it.columns[at]
        it.columns[at] = (replace(column, name=name, captured=True), source)
        it.values[name] = _drawn(rng, column.type)
        it.doubtful.add(name)
    elif not hidden and (places := _others(rng, it)):
        column, source = it.columns[places[0]]
        it.doubtful.discard(column.name)
        it.values.pop(column.name, None)
        it.columns[places[0]] = (replace(column, name="secret", captured=False), source)


def rekey(rng: Random, it: Alteration) -> None:
    """Another key: a new column, one column more, another type, another order, or a column that is there."""
    if it.rekeyed:
        return
    choice = rng.choice(["new", "more", "type", "order", "back"])
    name = _free(rng, it)
    if choice in ("new", "more") and name is not None and (choice == "new" or len(it.key) < 3):
        it.columns.append((replace(made(name, "int"), nullable=False), None))
        it.values[name] = (lambda n, _held: n) if choice == "new" else (lambda _n, _held: 0)
        it.key = [name] if choice == "new" else [*it.key, name]
        it.doubtful.add(name)
    elif choice == "type" and (places := [i for i, (c, _) in enumerate(it.columns) if c.name in it.key]):
        column, source = it.columns[rng.choice(places)]
        at = it.columns.index((column, source))
        if column.type == "text" or column.name in it.values:
            return
        it.columns[at] = (replace(made(column.name, "text"), nullable=False), source)
        it.values[column.name] = lambda _n, held: f"{held:03}"  # as with ZEROFILL: no cast of ours makes this
        it.doubtful.add(column.name)
    elif choice == "order" and len(it.key) > 1:
        it.key.reverse()
    elif choice == "back" and (ints := [c for c, _ in it.columns if c.name not in it.key and c.type == "int"]):
        one = next((c for c in ints if c.captured and c.name not in it.values), None)
        if one is None:
            return
        it.values[one.name] = lambda n, _held: n  # whatever was done to make it unique
        it.doubtful.add(one.name)
        it.key = [one.name]
    else:
        return
    it.rekeyed = True


KINDS: list[Callable[[Random, Alteration], None]] = [
    add, add, drop, drop, replaced, rename, rename, swap, take_the_name, widen, widen, retype, show_or_hide, rekey,
]  # fmt: skip
# of which most leave a small table what it is, in one commit
MILD = [kind for kind in KINDS if kind not in (retype, rekey)] * 2 + [retype, rekey]
