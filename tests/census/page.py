"""docs/reference/captured-tables.md: a table of engines and keys, one of kinds, and the reasons by number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from lakehouse_cdc.testing import VERSIONS, Version
from tests.census.outcome import LEFT_OUT, NOT_MADE
from tests.census.tables import Row, rows

PLACE = Path(__file__).parents[2] / "docs" / "reference" / "captured-tables.md"
_NAMES = {
    "mysql-5.7": "MySQL 5.7", "mysql-8.0": "MySQL 8.0", "mysql-9": "MySQL 9.7", "mariadb-10.11": "MariaDB 10.11",
    "mariadb-11": "MariaDB 11.8",
}  # fmt: skip
_NO_TABLE = "–"
_BEGIN = """# Which tables are captured

What a stream with default settings makes of a table, by its engine and its key, and of tables of a kind of their own.
"by (id)": these columns identify a row. "every copy of a row": the table has no key, and silver has as many equal
rows as it has. "–": the server makes no such table. A number is the reason why the table alone is not captured; `run`,
`status`, `verify` and `doctor` name it, and all others are captured. The page is made from what the servers do, and
a test compares it with that.
"""


def page(columns: Mapping[Version, Mapping[Row, str]]) -> str:
    """The page, from each server's column."""
    reasons = sorted({text for column in columns.values() for text in column.values() if text.startswith(LEFT_OUT)})
    numbers = {reason: str(number) for number, reason in enumerate(reasons, start=1)}

    def cells(row: Row) -> list[str]:
        texts = [columns[version][row] for version in VERSIONS]
        return [_NO_TABLE if text == NOT_MADE else numbers.get(text, text) for text in texts]

    lines = [_BEGIN, "## By engine and key", "", *_head("Engine", "Key")]
    made = [row for row in rows() if {*cells(row)} != {_NO_TABLE}]
    lines += [_line([str(row.engine), str(row.key), *cells(row)]) for row in made if row.engine is not None]
    lines += ["", "## By kind", "", *_head("Table")]
    lines += [_line([str(row.title), *cells(row)]) for row in made if row.title is not None]
    lines += ["", "## Why a table is not captured", ""]
    lines += [f"{number}. It {reason.removeprefix(LEFT_OUT)}." for reason, number in numbers.items()]
    return "\n".join(lines) + "\n"


def column_of(version: Version, text: str) -> dict[Row, str]:
    """One server's column of the page."""
    at = VERSIONS.index(version) - len(VERSIONS)
    reasons = {number: f"{LEFT_OUT}{reason}" for number, reason in re.findall(r"(?m)^(\d+)\. It (.*)\.$", text)}
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    cells = {tuple(part.strip() for part in line[: len(line) - len(VERSIONS)]): line[at].strip() for line in lines}
    column = {}
    for row in rows():
        cell = cells.get((row.title,) if row.title is not None else (str(row.engine), str(row.key)), _NO_TABLE)
        column[row] = NOT_MADE if cell == _NO_TABLE else reasons.get(cell, cell)
    return column


def _head(*names: str) -> list[str]:
    titles = [*names, *(_NAMES[version] for version in VERSIONS)]
    return [_line(titles), _line(["---"] * len(titles))]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
