"""The pages and files of the documentation that are made from the code: `python -m lakehouse_cdc.cli.reference FOLDER`.

`FOLDER` is `docs/reference`. A test compares what is there with what is made (tests/docs/test_generated.py).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from lakehouse_cdc.cli.exits import DIFFERENCE, FAILED, FINE, INTERRUPTED, WRONG_USE
from lakehouse_cdc.cli.main import app
from lakehouse_cdc.pipeline.config import reference
from lakehouse_cdc.spec import table_states
from lakehouse_cdc.telemetry import declaration

_INTRODUCTION = """\
# Command line

`lakehouse-cdc COMMAND`, or `python -m lakehouse_cdc COMMAND`. `--set KEY=VALUE` is for a key of
[the configuration](configuration.md). With `--json` a command prints one line on stdout, and everything else on stderr.

| exit code | meaning |
|---|---|
"""
_EXITS = {
    FINE: "success",
    DIFFERENCE: "a check found a difference, or a table is quarantined",
    WRONG_USE: "wrong use, or a wrong configuration",
    FAILED: "the source or a table's storage failed; what was committed stays, and the next run continues from there",
    INTERRUPTED: "interrupted; likewise",
}


def commands() -> str:
    """The page `docs/reference/cli.md`, made from the parser."""
    parts = [_INTRODUCTION + "".join(f"| {code} | {what} |\n" for code, what in _EXITS.items())]
    parts += _commands(typer.main.get_command(app), "")
    return "\n".join(parts)


def _commands(group: Any, above: str) -> Iterator[str]:
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from _commands(one, f"{above}{name} ")
        else:
            rows = [" | ".join(_parameter(given)) for given in one.params if given.name != "help"]
            table = "".join(f"| {row} |\n" for row in ["parameter | meaning | default", "--- | --- | ---", *rows])
            yield f"## {above}{name}\n\n{inspect.cleandoc(one.help)}\n\n{table}"


def _parameter(one: Any) -> Iterator[str]:
    annotation = one.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        value = "|".join(str(choice.value) for choice in annotation)
    else:
        value = one.metavar or one.name.upper()
    if one.param_type_name == "argument":
        names = [f"`{value}`"]
    else:
        names = [f"`{name}`" if one.is_flag else f"`{name} {value}`" for name in one.opts]
    yield ", ".join(names).replace("|", "&#124;")
    yield (one.help or "").replace("|", "&#124;")
    default = getattr(one.default, "value", one.default)
    yield "required" if one.required else "" if default in (None, False, "", []) else f"`{default}`"


MADE: Mapping[str, Callable[[], str]] = {
    "cli.md": commands,
    "configuration.md": reference.markdown,
    "metrics.md": declaration.page,
    "pipeline.schema.json": reference.json_schema,
    "table-states.md": table_states.page,
}


def main(folder: Path) -> None:
    """Write all of them."""
    for name, made in MADE.items():
        (folder / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
