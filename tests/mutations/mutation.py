"""A guard of the core, and the change of its code that takes it out."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Mutation:
    """`old` is the guard's code in `file`, `new` what is there without it.

    `rule` is what the guard holds, in one sentence; `function` is where its code is, as `name` or `Class.name`. Each of
    `tests`, node ids of the default suite, fails without the guard.
    """

    name: str
    rule: str
    file: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The text of the file without the guard. Raises ValueError unless its code is there exactly once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its code is in {self.file} {count} times, not once")
        return text.replace(self.old, self.new)

    def function_code(self, text: str) -> str | None:
        """The code of its function in the text of the file, None where there is no such function."""
        found: ast.AST = ast.parse(text)
        for name in self.function.split("."):
            inner = [
                node
                for node in getattr(found, "body", [])
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
            ]
            if not inner:
                return None
            found = inner[0]
        return ast.get_source_segment(text, found, padded=True)
