"""The page of the documentation that has the list of proven pairs, and what the census found on each server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lakehouse_cdc.sql.ddl import preserved
from lakehouse_cdc.testing import VERSIONS

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "ddl-effects.md"
VERDICTS = ("proven", "again, but the same", "again", "refused")
MODES = ("strict", "empty")

_HEAD = """\
# What DDL does to stored values

A DDL statement is in the binlog as text: it changes rows without an event for any of them. So for each statement
on a captured table it is decided whether every row is **proven** to hold the same values afterwards. Where it is, the
change of the schema is all that is done. Where it is not, the table is **read again**, beside the stream, which is
always exact and costs one read of the table. Nothing is assumed to be unchanged because nothing spoke against it.

This page is made by `uv run python -m tests.mysql.census --page`.

## Columns that get another definition

These pairs of types, before and after, are proven; all others are read again. Names, defaults, comments and positions
do not matter. Strict means `STRICT_TRANS_TABLES` or `STRICT_ALL_TABLES` in the `sql_mode` of the session that ran the
statement, as its event in the binlog has it.

"""
_MORE = """

- {not_null}
- {text}
- A change of the primary key is read again, and so is every column of a table with captured generated columns if one
  column gets another definition.
- ENUM and SET with another character set are read again: some servers lose values as they convert the labels. Where the
  labels themselves are not what they were, the table is quarantined.
- FLOAT and DOUBLE with (M,D): without a copy of the table (`ALGORITHM=INPLACE`, which the server takes by itself from
  DOUBLE to DOUBLE(10,2)) it rounds what it *shows* as text, and still stores all digits, which are what this
  pipeline holds. With a copy, and from FLOAT to DOUBLE(10,2), it rounds what it stores.

## Columns that the statement does not name

An ALTER that copies the table stores every column once more. Whether it copies is the server's decision, so each ALTER,
and each CREATE INDEX, is taken to do it. Then these are read again:

- a table with a TIMESTAMP, if the statement used a time zone that is not a fixed offset (its event then has the zone's
  name): MySQL converts each value to local time and back, which merges the two hours around the moment at which a clock
  is set back;
- a table with a generated column whose expression may depend on the session (its time zone, for one): a stored one is
  computed again;
- without strict mode, a table with dates that are carried as text: one that no calendar has becomes `0000-00-00`.

## Columns that are new

A new column holds NULL in the rows that are there, or a constant that is proven from the definition: a number, or a
text of plain ASCII letters, as the type holds it, or what NOT NULL gives without a default. All else is read again:
AUTO_INCREMENT, SERIAL and SERIAL DEFAULT VALUE (the server numbers the rows), expressions, times, bytes, rounded
numbers, generated columns; and, without strict mode, a label of an ENUM other than the first.

## The census

A test alters a column of each type into each other type on real servers, with edge values in its rows, under strict
mode and under `sql_mode = ''`, and compares what a snapshot reads before and after. Where the list says "proven",
every row's image was the same. That also was tried for each such pair alone, without and with `ALGORITHM=COPY`.
"""


def page(results: Mapping[str, Mapping[str, int]]) -> str:
    """The whole page; `results` are counts by `server, mode`, and by verdict."""
    text = _HEAD + preserved.markdown() + _MORE.format(not_null=preserved.NOT_NULL, text=preserved.TEXT_KEPT)
    lines = [
        "| server | sql_mode | pairs | proven | read again, though the same | read again | refused by the server |",
        "|---|---|---|---|---|---|---|",
    ]
    for version in VERSIONS:
        for mode in MODES:
            counts = results.get(f"{version}, {mode}")
            if counts is None:
                continue
            numbers = [sum(counts.values()), *(counts.get(verdict, 0) for verdict in VERDICTS)]
            lines.append(f"| {version} | {mode} | {' | '.join(map(str, numbers))} |")
    return text + "\n" + "\n".join(lines) + "\n"


def read_results() -> dict[str, dict[str, int]]:
    """What the census found when it was last run as a whole."""
    found: dict[str, dict[str, int]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def write_results(more: Mapping[str, Mapping[str, int]]) -> None:
    """Keep what was found on some servers beside what is known of the others."""
    known = read_results() if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**known, **more}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
