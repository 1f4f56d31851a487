"""The page on the states of a table, made from the state machine's own table.

`docs/reference/table-states.md` is this page (`lakehouse_cdc.cli.reference`); a test compares them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from lakehouse_cdc.model.state_machine import TABLE
from lakehouse_cdc.model.table_events import EVENTS
from lakehouse_cdc.model.table_state import PHASES

_HEAD = """\
# States of a table

What a captured table goes through, as its offset has it (`lakehouse_cdc.model.state_machine`). Each row below is a rule
of the state machine, and nothing else decides what follows. An event that has no row for a state stops the stream
before anything is written ([CDC-3029](errors.md)).

An arrow is named by the events that lead along it. Events after which a table stays as it is are in the table only.

"""


def page() -> str:
    """The page, in Markdown."""
    return _HEAD + _diagram() + "\n## States\n\n" + _meanings(PHASES) + "\n## Events\n\n" + _meanings(EVENTS) + _table()


def _diagram() -> str:
    arrows: dict[tuple[str, str], list[str]] = {}
    for (phase, event), row in TABLE.items():
        for to in row.to:
            if to is not phase:
                arrows.setdefault((phase.__name__, to.__name__), []).append(event.__name__)
    lines = [f"    {a} --> {b}: {', '.join(dict.fromkeys(events))}" for (a, b), events in arrows.items()]
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _meanings(kinds: Iterable[type]) -> str:
    rows = (f"| `{kind.__name__}` | {inspect.cleandoc(kind.__doc__ or '').replace(chr(10), ' ')} |" for kind in kinds)
    return "| name | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"


def _table() -> str:
    lines = ["\n## Transitions\n", "| state | event | state afterwards |", "|---|---|---|"]
    for phase in PHASES:
        for event in EVENTS:
            if (row := TABLE.get((phase, event))) is not None:
                after = ", ".join(f"`{to.__name__}`" for to in row.to)
                lines.append(f"| `{phase.__name__}` | `{event.__name__}` | {after} |")
    return "\n".join(lines) + "\n"
