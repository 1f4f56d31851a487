"""What tools write on MySQL and MariaDB: a file for each, a history over tables of its own (in this project's wording).

A file's first line says whose statements they are. Paragraphs are units, which the judge does not look into; those
before the line `-- then` are the setup. A statement ends with `;` at the end of a line. A paragraph that begins with
`-- only: mysql-8 mariadb` is for servers whose version begins so; all other comments are sent with their statement, as
the tools do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakehouse_cdc.testing import Version

_THEN, _ONLY = "-- then", "-- only: "


@dataclass(frozen=True)
class History:
    """One tool's statements for one server."""

    tool: str
    setup: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]


FILES = sorted(Path(__file__).parent.glob("*.sql"))


def history(path: Path, version: Version) -> History:
    """The statements of a file that `version` has."""
    _, _, text = path.read_text(encoding="utf-8").partition("\n")
    before, then, after = text.partition(f"\n{_THEN}\n")
    assert then, f"{path} has no line '{_THEN}'"
    setup = [sql for unit in _units(before, version) for sql in unit]
    return History(path.stem, tuple(setup), tuple(_units(after, version)))


def _units(text: str, version: Version) -> list[tuple[str, ...]]:
    units: list[tuple[str, ...]] = []
    rest: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        rest.append(paragraph)
        if not paragraph.endswith(";"):
            continue  # an empty line inside of a statement
        unit, rest = "\n\n".join(rest), []
        if unit.startswith(_ONLY):
            servers, _, unit = unit.partition("\n")
            if not version.startswith(tuple(servers.removeprefix(_ONLY).split())):
                continue
        units.append(tuple(sql.rstrip(";") for sql in unit.split(";\n")))
    assert not rest, f"no end: {rest}"
    return units
