"""Every error of the package has a code of the registry, and every code of the registry is an error of the package."""

from __future__ import annotations

import ast
import pickle
from functools import cache
from pathlib import Path

import pytest

import lakehouse_cdc
from lakehouse_cdc.errors import (
    CdcError,
    Code,
    ConfigError,
    DefiniteError,
    Scope,
    TableError,
    TransientError,
    codes,
    reference,
)
from lakehouse_cdc.errors.tree import REGISTRY
from tests.remedies import page

PACKAGE = Path(lakehouse_cdc.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "errors.md"
CLASSES = {cls.__name__ for cls in (CdcError, DefiniteError, ConfigError, TableError, TransientError)}
NAMED = {name: code for name, code in vars(codes).items() if isinstance(code, Code)}
# caught inside of the package, or part of the protocol of a caller that is not the user
INTERNAL = {
    "BadParameter",  # typer's, of an option of the command line
    *(
        "NotUnderstood",
        "NotOurs",
        "_Unavailable",
        "_NotAsEver",
        "_AlteredMeanwhile",
        "Invalid",
        "AnotherForm",
        "GaveUp",
        "Outgrown",
        "Unreadable",
        "OvertakenError",
        "NoPlace",
    ),
    *("ValueError", "TypeError", "IndexError", "EOFError", "AttributeError", "KeyboardInterrupt", "Exit"),
}


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Every node of the package's modules but those of `errors`."""
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "errors" not in path.parents]
    return [(path, node) for path in paths for node in ast.walk(ast.parse(path.read_text()))]


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def test_no_error_is_made_or_raised_without_a_code() -> None:
    made = [
        f"{path}:{node.lineno}"
        for path, node in nodes()
        if isinstance(node, ast.Call) and name_of(node.func) in CLASSES
    ]
    assert made == []
    raised = {
        name
        for _, node in nodes()
        if isinstance(node, ast.Raise) and node.exc is not None
        for name in [name_of(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)]
        if name.lstrip("_")[:1].isupper()
    }
    assert raised <= INTERNAL


def test_each_code_is_used_outside_of_the_registry() -> None:
    used = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "codes"
    }
    assert used == set(NAMED)


def test_each_code_is_declared_under_its_name() -> None:
    assert {code.name: code.number for code in REGISTRY.values()} == {
        name.lower(): code.number for name, code in NAMED.items()
    }
    for code in REGISTRY.values():
        assert 1000 < code.number < 9000
        for sentence in (code.meaning, code.remedy):
            assert sentence == " ".join(sentence.split())
        assert code.meaning.endswith(".")


def test_a_number_or_a_name_is_taken_once() -> None:
    known = codes.TABLE_GONE
    for number, name in [(known.number, "another_name"), (9999, known.name)]:
        with pytest.raises(ValueError, match="is declared twice"):
            Code(number, name, DefiniteError, Scope.ROW, "", "")
    assert 9999 not in REGISTRY


@pytest.mark.parametrize("code", REGISTRY.values(), ids=lambda code: code.name)
def test_an_error_survives_a_pickle_with_its_code(code: Code[CdcError]) -> None:
    error = code.error("what\n happened", where="here", table="a.b")
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is code.of
    assert found.code is code
    assert found.as_json() == error.as_json()
    assert str(found) == f"CDC-{code.number} {code.name}: what happened [here] Hint: {' '.join(code.remedy.split())}"


def test_the_page_is_what_the_registry_generates() -> None:
    assert PAGE.read_text() == reference.markdown(page.tests())
