"""Every way in which the servers' grammars differ, from the grammar's data, as the page of the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lakehouse_cdc.sql.grammar.notation import (
    SERVERS,
    Choice,
    Expression,
    Only,
    Repeated,
    Sequence,
    grammar,
    shown,
)

NAMES = {
    "5.7": "MySQL 5.7", "8.0": "MySQL 8.0", "9": "MySQL 9", "10.11": "MariaDB 10.11", "11.8": "MariaDB 11.8",
}  # fmt: skip
_HEAD = """# How the servers' grammars differ

Made by `python -m lakehouse_cdc.sql.grammar` from the grammar that the parser interprets
(`lakehouse_cdc/sql/grammar/*.grammar`); do not edit it.

Each row is a part of a production that only some of the servers have; every other part of these {count} productions is
the same on all of them. Words in capitals are keywords, `[ ]` may be left out, `|` separates alternatives, `*` and `+`
repeat, `% ','` is a list with commas. A statement is read with the productions of its kind of server, MySQL or MariaDB.
"""


def differences() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Production, part, and the servers that have it; a part inside another that is listed is listed by itself, too."""
    for name, production in grammar().items():
        for part in _guarded(production):
            yield name, shown(part.part), part.servers


def _guarded(part: Expression) -> Iterator[Only]:
    if isinstance(part, Only):
        yield part
        yield from _guarded(part.part)
    elif isinstance(part, Repeated):
        yield from _guarded(part.part)
    elif isinstance(part, Sequence | Choice):
        for one in part.parts:
            yield from _guarded(one)


def page() -> str:
    """The page, in Markdown."""
    by_production = defaultdict(list)
    for name, part, servers in differences():
        marks = " | ".join("yes" if server in servers else "" for server in SERVERS)
        escaped = part.replace("|", "\\|")
        by_production[name].append(f"| `{escaped}` | {marks} |")
    head = f"| part | {' | '.join(NAMES[server] for server in SERVERS)} |\n|---|{'---|' * len(SERVERS)}"
    tables = [f"## {name}\n\n{head}\n" + "\n".join(rows) for name, rows in sorted(by_production.items())]
    return "\n\n".join([_HEAD.format(count=len(grammar())).rstrip("\n"), *tables]) + "\n"
