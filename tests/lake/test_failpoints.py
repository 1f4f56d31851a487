"""Every commit is made by a door of `lake.failpoints`: code that goes around them is found here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.lake.failpoints import Door, Moment, commit_to, install

PACKAGE = Path(__file__).parents[2] / "lakehouse_cdc"
DOORS = (
    "lake/tables.py", "lake/merging.py", "lake/direct/newest_version.py", "lake/direct/rust_table.py",
    "lake/direct/creation.py", "lake/log_files.py",  # by the latter the former put a version, and nobody else
    "lake/files/folder.py",  # links files of a checkpoint
)  # fmt: skip
# files of a table's log that are linked into another folder, of which a checkpoint is made: no version of the table
COPIES = {"lake/direct/log_upkeep.py": re.compile(r"os\.link\(os\.path\.join\(log, .+\), os\.path\.join\(part, .+\)\)")}
READS = ("SELECT", "SHOW", "DESCRIBE")
# VACUUM and DROP delete what no reader of the newest version sees; a catalog's schema, and a jar, is no table
NO_COMMIT = ("VACUUM", "DROP TABLE IF EXISTS", "CREATE SCHEMA IF NOT EXISTS", "ADD JAR")
WRITES = (
    "save", "saveAsTable", "insertInto", "toTable", "commitLarge", "createTable", "compact", "z_order", "link",
    "put_version",
)  # fmt: skip


def commits(path: Path) -> Iterator[str]:
    """Calls in a module that may commit to a table."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_commit(node, node.func):
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("write_deltalake", "log.create"):
            yield ast.unparse(node)


def is_commit(call: ast.Call, method: ast.Attribute) -> bool:
    if method.attr == "sql":
        return bool(call.args) and not begins_with(call.args[0], (*READS, *NO_COMMIT))
    merges = method.attr == "execute" and not call.args and re.search("(?i)merge|statement", ast.unparse(method.value))
    return bool(merges) or method.attr in WRITES


def begins_with(text: ast.expr, words: tuple[str, ...]) -> bool:
    first = text.values[0] if isinstance(text, ast.JoinedStr) else text
    return isinstance(first, ast.Constant) and str(first.value).startswith(words)


def test_nothing_commits_beside_the_doors() -> None:
    found = {str(path.relative_to(PACKAGE)): [*commits(path)] for path in PACKAGE.rglob("*.py")}
    for name, copy in COPIES.items():
        assert all(map(copy.fullmatch, found.pop(name)))
    assert {name: calls for name, calls in found.items() if calls and name not in DOORS} == {}
    assert len(found["lake/tables.py"]) >= 4  # what is looked for is found where it is


def test_a_hook_is_called_before_and_after_a_commit_and_may_prevent_it() -> None:
    seen: list[tuple[Door, Moment, str]] = []
    install(lambda *at: seen.append(at))
    try:
        with commit_to(Door.WRITE, "t"):
            assert seen == [(Door.WRITE, Moment.BEFORE, "t")]
        assert seen[1:] == [(Door.WRITE, Moment.AFTER, "t")]
        install(refuse)
        with pytest.raises(RuntimeError), commit_to(Door.WRITE, "t"):
            pytest.fail("the commit is made")
    finally:
        install(None)
    with commit_to(Door.WRITE, "t"):
        pass
    assert len(seen) == 2


def refuse(*_: object) -> None:
    raise RuntimeError
