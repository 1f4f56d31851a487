"""One folder for each kind of DDL: the tables before (`schema.sql`), what is done to them (`changes.sql`), and what
silver holds afterwards (`expected.json`).

A statement ends with `;` at the end of a line; `{database}` is the scenario's own database. `servers` are those that
have the statements, all of them where it is left out; `read_again` are the tables that are read again for it, and no
others are; `rows` are in any order, with dates and decimals as text. The columns that the pipeline adds are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from lakehouse_cdc.testing import VERSIONS, Version


@dataclass(frozen=True)
class Held:
    """What silver holds of one table: the columns' types in their order, and rows."""

    columns: Mapping[str, str]
    rows: list[list[Any]]

    def images(self, columns: Iterable[str] | None = None) -> Counter[Any]:
        """The rows as counted images, of some of the columns."""
        chosen = list(self.columns if columns is None else columns)
        return Counter(image(dict(zip(self.columns, row, strict=True)), chosen) for row in self.rows)


@dataclass(frozen=True)
class Scenario:
    """One folder."""

    name: str
    schema: tuple[str, ...]
    changes: tuple[str, ...]
    servers: tuple[Version, ...]
    read_again: frozenset[str]
    tables: Mapping[str, Held]


def image(row: Mapping[str, Any], columns: Iterable[str]) -> tuple[Any, ...]:
    """A row's values in these columns, as `expected.json` has them."""
    return tuple(_plain(row[c]) for c in columns)


def _plain(value: Any) -> Any:
    """Decimals without digits after the point are whole numbers, as an unsigned BIGINT of the source is."""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return str(value) if isinstance(value, date | Decimal) else value


def _statements(path: Path) -> tuple[str, ...]:
    *statements, rest = path.read_text(encoding="utf-8").split(";\n")
    assert not rest, f"{path} does not end with a statement"
    return tuple(statements)


def _scenario(folder: Path) -> Scenario:
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return Scenario(
        folder.name,
        _statements(folder / "schema.sql"),
        _statements(folder / "changes.sql"),
        tuple(expected.get("servers", VERSIONS)),
        frozenset(expected.get("read_again", ())),
        {name: Held(**held) for name, held in expected["tables"].items()},
    )


SCENARIOS = [_scenario(folder) for folder in sorted(Path(__file__).parent.iterdir()) if folder.name[0] != "_"]
