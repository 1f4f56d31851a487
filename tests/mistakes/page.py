"""The page of mistakes."""

from __future__ import annotations

from collections.abc import Mapping

from tests.mistakes.mistake import PROGRAM, Mistake, Said
from tests.mistakes.of_commands import COMMANDS
from tests.mistakes.of_files import FILES, YAML
from tests.mistakes.of_machines import MACHINES
from tests.mistakes.of_sources import SOURCES

PARTS = {
    "The command line": COMMANDS,
    "YAML": YAML,
    "The configuration": FILES,
    "The source": SOURCES,
    "The machine": MACHINES,
}
MISTAKES = tuple(mistake for part in PARTS.values() for mistake in part)
_HEAD = f"""\
# Mistakes

What is easily done wrong, and what the program says then. The tests make each of these mistakes and keep this page.
A mistake in the file is shown by the lines that are wrong; `{PROGRAM} config -c pipeline.yml`, which asks no server, or
`{PROGRAM} doctor -c pipeline.yml` is called then. Of `doctor`'s lines, those that are fine are left out. With `--json`
the same is data, and [Errors](errors.md) has what each code means.
"""


def markdown(said: Mapping[str, Said]) -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, mistakes in PARTS.items():
        lines = [line(mistake, said[mistake.what]) for mistake in mistakes]
        parts.append(
            "\n".join(
                [f"## {title}", "", "| mistake | as | the program says | exit |", "|---|---|---|---|", *lines, ""]
            )
        )
    return "\n".join(parts)


def line(mistake: Mistake, said: Said) -> str:
    """The row of the table for one mistake."""
    words = "<br>".join(map(_code, said.text.splitlines()))
    return f"| {mistake.what} | {_code(mistake.shown)} | {words} | {said.code} |"


def _code(text: str) -> str:
    text = text.replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"
