"""MariaDB's system-versioned tables: which of the images in the log are rows of the table.

Such a table holds each version of a row that there was. One column, the end of the row's period, has the greatest
TIMESTAMP that the server knows while the row is there, and the time at which it ended in each version that is past. A
plain SELECT shows the current rows alone, and so do bronze and silver.

**The rule.** An image whose end is not the greatest value counts as no row. An event is then what is left of it:

| logged | by | is |
|---|---|---|
| an insert of a current row | INSERT | an insert |
| an insert of an ended one | UPDATE (the version before it), or a restored dump | nothing |
| an update of a current row to a current one | UPDATE | an update |
| an update of a current row to an ended one | DELETE | a delete |
| a delete of an ended row | DELETE HISTORY | nothing |

It holds because a SELECT without FOR SYSTEM_TIME has just this condition: to read is to leave out the same rows. The
images are exact, and the condition is on one image alone, so nothing depends on the order or the grouping of events.

**The greatest value** is the server's: 2038-01-19 03:14:07.999999 before 11.5 and on 32 bits, else 2106-02-07
06:28:15.999999 (seen on 10.11 and 11.8; 11.8 shows no row of a table that 10.11 made until it is rebuilt). So it is
asked of the server, and is part of the schema. A log may hold images that a server with the other one wrote, before or
after an upgrade. Such an end is neither the greatest value nor a time at which a row ended, so it is refused (see
`images.rows.versions`) and the table is read again.

**The key.** The server puts the end into the primary key and into each unique one. Among current rows it is the same
everywhere, so that the columns besides it identify them.

The columns of the period are either declared, and columns like others, or hidden: then the catalog has neither of them,
and table maps and images have them after all columns of the catalog, as `row_start` and `row_end`, which no other
column of such a table may be called.

Source: MariaDB Server Documentation, "System-Versioned Tables"; what is logged was seen on 10.11.5 and 11.8.9.
Guards: tests/images/test_versions.py, tests/source/test_versioned.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

HIDDEN_START, HIDDEN_END = "row_start", "row_end"
END_BYTES = 7  # a TIMESTAMP(6) in an image: the seconds in four bytes, the microseconds in three, big-endian


@dataclass(frozen=True)
class Versioning:
    """How a table is versioned: its period's columns, and what the end of a current row is, in UTC.

    `greatest` is written as the server writes it, `2038-01-19 03:14:07.999999`.
    """

    start: str
    end: str
    greatest: str

    @property
    def number(self) -> int:
        """`greatest` as the number that its bytes in an image are."""
        moment = datetime.fromisoformat(self.greatest).replace(tzinfo=timezone.utc)
        return int(moment.replace(microsecond=0).timestamp()) << 24 | moment.microsecond

    @classmethod
    def hidden(cls, greatest: str) -> Versioning:
        """That of a table which declares no columns for its period."""
        return cls(HIDDEN_START, HIDDEN_END, greatest)

    def current_key(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of one of the server's keys that identify current rows."""
        return tuple(name for name in names if name != self.end)
