"""Each entry of the list fits the code, and the documentation has them all; `python -m tests.mutations` runs them."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.mutations import GUARDS, PARTS
from tests.mutations.mutation import ROOT, Mutation
from tests.mutations.page import PAGE, parts_of, with_tables

LEAST = 25  # guards that a reader may expect of a core like this
EVERY = pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS.keys())


def test_names_are_told_apart() -> None:
    assert len(GUARDS) == sum(map(len, PARTS.values())) >= LEAST


@EVERY
def test_its_code_is_there_once_and_in_its_function(guard: Mutation) -> None:
    text = (ROOT / guard.file).read_text(encoding="utf-8")
    ast.parse(guard.applied(text))
    code = guard.function_code(text)
    assert code is not None
    assert guard.old.strip() in code


@EVERY
def test_its_tests_exist(guard: Mutation) -> None:
    for test in guard.tests:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name.partition("[")[0] in names


@pytest.mark.process
def test_its_tests_are_in_the_default_suite() -> None:
    tests = sorted({test for guard in GUARDS.values() for test in guard.tests})
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--collect-only", "-m", "not long", *tests]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    collected = {line.strip() for line in ran.stdout.splitlines() if "::" in line}
    assert [test for test in tests if not {test, f"{test}["} & {name[: len(test) + 1] for name in collected}] == []


def test_the_page_is_made_from_the_list() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert parts_of(text) == [*PARTS]
    assert with_tables(text, PARTS) == text, "run: uv run python -m tests.mutations --page"
