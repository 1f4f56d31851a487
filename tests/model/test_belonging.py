"""Every combination of what a start can find, and what it is to do."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from lakehouse_cdc.model.belonging import (
    Action,
    BronzeRecord,
    CheckpointRecord,
    Decision,
    Plan,
    PlanAction,
    Silver,
    Tie,
    decide,
    relation,
)
from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint

HERE = SourcePoint(1, "uuid", "log.000001", 100)
LATER = replace(HERE, pos=200)
EPOCH_2 = replace(LATER, epoch=2)


def note(query: str, batch: int, at: SourcePoint = HERE) -> CommitNote:
    return CommitNote("shop", query, batch, at)


def held(last: CommitNote | None, name: str = "T") -> BronzeRecord:
    return BronzeRecord(name, last, rows=last is not None)


NONE = CheckpointRecord()
EMPTY = held(None)
FORGOTTEN = BronzeRecord("T", None, rows=True)  # rows, and a log that no longer has the notes
FIRST = CheckpointRecord("Q", 0, None, "T", {0: HERE})  # batch 0 is planned
ONE = CheckpointRecord("Q", 0, 0, "T", {0: HERE})  # batch 0 is complete
TWO = CheckpointRecord("Q", 1, 0, "T", {0: HERE, 1: LATER})  # batch 1 is planned

RELATIONS = [
    # the checkpoint, the change table, how they are related
    (NONE, None, Tie.NEITHER),
    (NONE, EMPTY, Tie.NEITHER),
    (NONE, held(note("Q", 0)), Tie.NEW_CHECKPOINT),
    (NONE, FORGOTTEN, Tie.NEW_CHECKPOINT),
    # a crash in the first batch
    (replace(FIRST, names=None), None, Tie.NEITHER),
    (replace(FIRST, names=None), EMPTY, Tie.NEITHER),
    (FIRST, EMPTY, Tie.NEITHER),
    (FIRST, None, Tie.NEITHER),
    (FIRST, held(None, "other"), Tie.NEITHER),
    (FIRST, held(note("Q", 0)), Tie.TOGETHER),
    (replace(FIRST, names=None), held(note("Q", 0)), Tie.TOGETHER),
    (FIRST, held(note("Q", 0), "other"), Tie.OTHER_TABLE),
    # a new checkpoint over rows of another one; planned as a new epoch, and not
    (FIRST, held(note("P", 7)), Tie.NEW_CHECKPOINT),
    (replace(FIRST, names=None), held(note("P", 7)), Tie.NEW_CHECKPOINT),
    (replace(FIRST, names=None), FORGOTTEN, Tie.NEW_CHECKPOINT),
    (replace(FIRST, ends={0: EPOCH_2}), held(note("P", 7)), Tie.TOGETHER),
    (replace(FIRST, ends={0: EPOCH_2}), held(note("P", 7, EPOCH_2)), Tie.NEW_CHECKPOINT),
    # as it is between two runs, and after a crash, with the file that names the table and without
    (ONE, held(note("Q", 0)), Tie.TOGETHER),
    (replace(ONE, names=None), held(note("Q", 0)), Tie.TOGETHER),
    (TWO, held(note("Q", 0)), Tie.TOGETHER),
    (TWO, held(note("Q", 1, LATER)), Tie.TOGETHER),
    (replace(TWO, names=None), held(note("Q", 1, LATER)), Tie.TOGETHER),
    (ONE, FORGOTTEN, Tie.TOGETHER),
    (replace(ONE, names=None), replace(FORGOTTEN, last_of_query=0), Tie.TOGETHER),
    (replace(ONE, names=None), FORGOTTEN, Tie.OTHER_TABLE),
    # the table is gone, or is another one
    (ONE, None, Tie.TABLE_GONE),
    (TWO, None, Tie.TABLE_GONE),
    (replace(ONE, names=None), None, Tie.TABLE_GONE),
    (ONE, held(note("Q", 0), "other"), Tie.OTHER_TABLE),
    (ONE, held(None, "other"), Tie.OTHER_TABLE),
    (replace(ONE, names=None), held(note("P", 3)), Tie.OTHER_TABLE),
    # the checkpoint is from a backup
    (ONE, held(note("Q", 1, LATER)), Tie.OLDER_CHECKPOINT),
    (replace(ONE, names=None), held(note("Q", 5, LATER)), Tie.OLDER_CHECKPOINT),
    (TWO, held(note("Q", 1, replace(LATER, pos=150))), Tie.OLDER_CHECKPOINT),
    (ONE, held(note("P", 3)), Tie.OLDER_CHECKPOINT),
    # the table is from a backup
    (replace(ONE, planned=3, complete=3, ends={3: LATER}), held(note("Q", 2)), Tie.OLDER_TABLE),
    (ONE, EMPTY, Tie.OLDER_TABLE),
    (replace(ONE, names=None), EMPTY, Tie.OLDER_TABLE),
]


@pytest.mark.parametrize(("checkpoint", "bronze", "tie"), RELATIONS)
def test_how_a_checkpoint_and_a_table_are_related(
    checkpoint: CheckpointRecord, bronze: BronzeRecord | None, tie: Tie
) -> None:
    assert relation(checkpoint, bronze) is tie


def test_every_relation_has_an_example() -> None:
    assert {tie for _, _, tie in RELATIONS} == set(Tie)


REFUSED = (Tie.TABLE_GONE, Tie.OTHER_TABLE, Tie.OLDER_CHECKPOINT, Tie.OLDER_TABLE)
NO, PASS, REMOVE = PlanAction.NOTHING, PlanAction.PASS, PlanAction.REMOVE
# by relation and silver: the action, and what becomes of a plan that there is none of, is held, is of the same
# configuration, is of another one
DECISIONS = {
    (Tie.NEITHER, Silver.NONE): (Action.BEGIN, (NO, PASS, NO, REMOVE)),
    (Tie.NEITHER, Silver.LOST): (Action.BEGIN, (NO, PASS, NO, REMOVE)),
    (Tie.NEITHER, Silver.LEFT): (Action.REFUSE, (NO, NO, NO, NO)),
    (Tie.NEITHER, Silver.FOREIGN): (Action.REFUSE, (NO, NO, NO, NO)),
    (Tie.NEITHER, Silver.MATCHING): (Action.REFUSE, (NO, NO, NO, NO)),
    (Tie.NEITHER, Silver.OLDER): (Action.REFUSE, (NO, NO, NO, NO)),
    (Tie.TOGETHER, Silver.NONE): (Action.GO_ON, (NO, PASS, NO, REMOVE)),
    (Tie.TOGETHER, Silver.MATCHING): (Action.GO_ON, (NO, PASS, NO, REMOVE)),
    (Tie.TOGETHER, Silver.LOST): (Action.GO_ON, (NO, PASS, NO, REMOVE)),
    (Tie.TOGETHER, Silver.OLDER): (Action.GO_ON, (NO, PASS, NO, REMOVE)),
    (Tie.TOGETHER, Silver.LEFT): (Action.GO_ON, (NO, PASS, NO, REMOVE)),
    (Tie.TOGETHER, Silver.FOREIGN): (Action.REFUSE, (NO, NO, NO, NO)),
    (Tie.NEW_CHECKPOINT, Silver.NONE): (Action.BEGIN_EPOCH, (NO, REMOVE, REMOVE, REMOVE)),
    (Tie.NEW_CHECKPOINT, Silver.MATCHING): (Action.BEGIN_EPOCH, (NO, REMOVE, REMOVE, REMOVE)),
    (Tie.NEW_CHECKPOINT, Silver.LOST): (Action.BEGIN_EPOCH, (NO, REMOVE, REMOVE, REMOVE)),
    (Tie.NEW_CHECKPOINT, Silver.OLDER): (Action.BEGIN_EPOCH, (NO, REMOVE, REMOVE, REMOVE)),
    (Tie.NEW_CHECKPOINT, Silver.LEFT): (Action.BEGIN_EPOCH, (NO, REMOVE, REMOVE, REMOVE)),
    (Tie.NEW_CHECKPOINT, Silver.FOREIGN): (Action.REFUSE, (NO, NO, NO, NO)),
    **{(tie, silver): (Action.REFUSE, (NO, NO, NO, NO)) for tie in REFUSED for silver in Silver},
}


@pytest.mark.parametrize(("tie", "silver"), list(product(Tie, Silver)))
def test_what_a_start_does(tie: Tie, silver: Silver) -> None:
    action, plans = DECISIONS[tie, silver]
    why = None if action is not Action.REFUSE else tie if tie in REFUSED else silver
    rebuild = silver if silver in (Silver.LOST, Silver.OLDER) and action is not Action.REFUSE else None
    for plan, planned in zip((Plan.NONE, Plan.HELD, Plan.SAME, Plan.CHANGED), plans, strict=True):
        assert decide(tie, silver, plan) == Decision(action, planned, rebuild, why), plan
