"""What another server lacks of an offset, by GTIDs."""

from __future__ import annotations

from hypothesis import given

from lakehouse_cdc.model.failover import Comparison
from lakehouse_cdc.model.gtid import GtidSet
from tests.model.test_gtid import A, members, sets


@given(sets, sets, sets)
def test_nothing_is_lost_exactly_if_nothing_is_named(held: GtidSet, executed: GtidSet, purged: GtidSet) -> None:
    """That is: what bronze holds is in the server, and what bronze lacks of the server is in its log."""
    purged = purged.minus(purged.minus(executed))
    compared = Comparison.of(held, executed, purged)
    in_log = members(executed) - members(purged)
    whole = members(held) <= members(executed) and members(executed) - members(held) <= in_log
    assert whole == (not compared.lacking and not compared.purged)


def test_sentences() -> None:
    held, more = GtidSet.parse(f"{A}:1-9"), GtidSet.parse(f"{A}:1-12")
    assert Comparison.of(held, GtidSet.parse(f"{A}:1-5"), GtidSet()).sentence == (
        f"it has not executed {A}:6-9, which bronze holds"
    )
    assert Comparison.of(held, more, GtidSet.parse(f"{A}:1-11")).sentence == (
        f"it has purged {A}:10-11, which bronze lacks"
    )
    assert Comparison.of(held, more, GtidSet()).sentence == (
        "it has executed all that bronze holds and purged nothing that bronze lacks"
    )
    assert Comparison.of(held, more, None).sentence == "it has executed all that bronze holds"
