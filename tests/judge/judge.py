"""The judge: whether a history of statements on a real server is followed, live and as a backlog.

`judged` runs a setup, takes the first snapshot, and executes units of statements one after the other. After each unit
the server is asked what its tables are (see `observe`). Two streams read the same history: one after each unit (live),
the other all of it at the end (backlog), so that the backlog's DDL is read when later DDL has hidden it from the
catalog. Both begin from one snapshot, and no Spark takes part: the planner and the split readers are called as Spark
would call them.

A unit is one statement, or several that nothing may come between (locks, an open transaction, a table that does not
exist in the middle of a swap). The live stream is compared with the server after every unit. The backlog ends a batch
at each DDL that it follows; where that is the end of a unit, it is compared with what the server was *then*: schema,
rows, and which tables are there. At the end both are compared with the server as it is.

After each unit a row of every captured table is replaced by itself, so that there are row images under each schema
which a backlog reads. Tables under `by_*`, and in the database `{other}`, are not captured: whatever is done to them
may have no effect at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakehouse_cdc.testing import MySqlServer
from tests.judge.case import new_case
from tests.judge.verdicts import Finding, Verdict

__all__ = ["Finding", "Unit", "Verdict", "judged", "tally"]

Unit = str | Sequence[str]


def judged(
    server: MySqlServer, database: str, folder: Path, setup: Iterable[str], units: Iterable[Unit], *, touch: bool = True
) -> list[Finding]:
    """Run `setup` and `units` in new databases, and say of each unit how it was followed, live and as a backlog.

    `database` must not exist; `{database}` and `{other}` in a statement stand for it and for a second one of which
    nothing is captured; both are dropped afterwards. Raises pymysql.Error for a setup that the server refuses.
    """
    with new_case(server, database, folder, touch=touch) as case:
        for sql in setup:
            case.run(sql)
        case.begin()
        for unit in units:
            case.unit((unit,) if isinstance(unit, str) else tuple(unit))
        return case.end()


def tally(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each verdict."""
    return dict(Counter(finding.verdict.value for finding in findings))
