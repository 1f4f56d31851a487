"""Which tests carry out the hint of each code, read from the code of the tests; and the codes that have none yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

# codes without a test, by the name of the constant: why there is none
WITHOUT: dict[str, str] = {}


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
