"""The guards of the core, and that the default suite fails without any one of them.

    uv run python -m tests.mutations [NAME...] [--list | --page]

Each entry of `GUARDS` names a guard, its code, the code without it, and the tests that must fail then. The command
makes a copy of the checkout and shows first that these tests pass there; then it takes out one guard after the other,
and runs the guard's tests. It ends with 1 if they pass ("SURVIVED"), with 2 if they do not pass in the first place.

`test_guards.py` checks in the default suite that each entry fits the code, and that the tables of `docs/ALGORITHMS.md`
are made from the entries.
"""

from __future__ import annotations

from tests.mutations.log import LOG
from tests.mutations.mutation import Mutation
from tests.mutations.planning import PLANNING
from tests.mutations.reading import READING
from tests.mutations.tables import TABLES

# by the part of the core that they guard, in the order of the documentation
PARTS: dict[str, tuple[Mutation, ...]] = {
    "As-of reads, keys and the order of rows": READING,
    "The log": LOG,
    "The planner": PLANNING,
    "Bronze and silver": TABLES,
}
GUARDS: dict[str, Mutation] = {guard.name: guard for part in PARTS.values() for guard in part}
