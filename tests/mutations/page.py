"""The tables of guards in `docs/ALGORITHMS.md`: each stands between two comments, and is made from the entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.mutations.mutation import ROOT, Mutation

PAGE = ROOT / "docs" / "ALGORITHMS.md"
_TABLE = re.compile(r"(?<=<!-- guards: )([^>]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_tables(text: str, parts: Mapping[str, Sequence[Mutation]]) -> str:
    """The page with its tables made again. Raises KeyError for a part that does not exist."""
    return _TABLE.sub(lambda found: f"{found[1]}{found[2]}{_table(parts[found[1]])}", text)


def parts_of(text: str) -> list[str]:
    """The parts whose tables are on the page, in its order."""
    return [found[1] for found in _TABLE.finditer(text)]


def _table(guards: Sequence[Mutation]) -> str:
    lines = ["| rule | function | guard | test |", "|---|---|---|---|"]
    for guard in guards:
        tests = ", ".join(f"`{test.split('[')[0]}`" for test in guard.tests)
        lines.append(f"| {guard.rule} | `{guard.function}` in `{guard.file}` | `{guard.name}` | {tests} |")
    return "\n".join(["", *lines, "", ""])
