"""Which tests carry out the hint of each code, read from the code of the tests; and the codes that have none yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# codes without a test, by the name of the constant: why there is none
WITHOUT: dict[str, str] = {
    "BINLOG_EVENT_UNKNOWN": "its way out is another release, and no event of the servers of the suite is unknown",
    "INVARIANT_BROKEN": "nothing that a server or a user does leads to it; the tests of what it guards call its code",
    "TRANSITION_REFUSED": "the planner makes no event that a state of a table refuses; test_state_machine.py has them",
    "PRIMARY_KEY_MISSING": "each caller asks first whether the table has a key; it guards against one that does not",
    "VALUE_UNREPRESENTABLE": "no value of a server is so: a JSON document of 4 GiB exceeds every max_allowed_packet",
    "BRONZE_BATCH_SPLIT": "no stream of this package has a limit that could split a commit, and no setting makes one",
    "SCHEMA_CHANGE_INCOMPLETE": "this release writes whole records of schemas; it guards against bronze of another one",
    "EXCLUDED_COLUMN_UNREADABLE": "a server logs no rows without the table map that gives the lengths of columns",
    "SILVER_VALUE_UNFIT": "a row is written to bronze by the schema it says; only a bronze that was altered has others",
    "SILVER_FROZEN_EARLIER": "a run first builds such a table again; those that several go into are always frozen",
    "STATEMENT_REFUSED": "a refused read is the table's (TABLE_READ_REFUSED); no other is known to be refused",
    "SILVER_CHANGE_INTERRUPTED": "a log gives a change again at its seq, whatever copy of bronze it is taken up from",
}


@cache
def tests() -> dict[str, list[str]]:
    """By the name of a code's constant (`TABLE_GONE`): node ids of tests, without parameters, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "remedy(" in text:
            for code, test in _marked(ast.parse(text)):
                found.setdefault(code, []).append(f"{path.relative_to(ROOT)}::{test}")
    return found


def _marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "remedy":
                    for argument in decorator.args:
                        yield ast.unparse(argument).removeprefix("codes."), node.name
