"""Whether another server has what an offset is of, and what comes next, as far as GTIDs say.

A GTID names one transaction on all servers of a replication group. So a set of them says what a state is made of,
whichever server is asked. S: the transactions up to the offset, which bronze holds. E: those that the other server has
executed. P: those of E that it has purged from its log.

1. S is within E, or bronze holds transactions that the server never had: S - E. A replica that still applies what it
   received may get them; those of a server that was lost are lost.
2. P is within S, or there are transactions that neither bronze nor the log of that server holds: P - S.
3. With both, what bronze lacks is E - S, and all of it is in the server's log.

This says what would be lost, not where to continue: the order of commits on a replica may be another one, XA
transactions and the windows of reads are known by positions alone, and seqs are made of positions. So a stream does not
move over by itself; it is refused, with this comparison, and with `onGap` resnapshot all tables are read again.

MariaDB's positions hold the last number of each domain and server, which stand for all before it (`model.gtid`). What
it has purged, no variable says.

Guards: tests/model/test_failover.py, tests/source/test_failover.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_cdc.model.gtid import GtidSet

_SHOWN = 300  # characters of a set


@dataclass(frozen=True)
class Comparison:
    """`lacking`: what the server has not executed of what bronze holds; `purged`: what it has purged of the rest.

    `purged` is None where that is not known.
    """

    lacking: GtidSet
    purged: GtidSet | None

    @classmethod
    def of(cls, held: GtidSet, executed: GtidSet, purged: GtidSet | None) -> Comparison:
        """Compare what bronze holds with what the server has executed, and purged."""
        return cls(held.minus(executed), None if purged is None else purged.minus(held))

    @property
    def sentence(self) -> str:
        """What a person reads."""
        said = []
        if self.lacking:
            said.append(f"it has not executed {shown(self.lacking)}, which bronze holds")
        if self.purged:
            said.append(f"it has purged {shown(self.purged)}, which bronze lacks")
        if not said:
            said.append("it has executed all that bronze holds")
            said += ["and purged nothing that bronze lacks"] if self.purged is not None else []
        return " and ".join(said) if self.lacking else " ".join(said)


def shown(gtids: GtidSet) -> str:
    """A set, or the beginning of a long one."""
    text = str(gtids)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
