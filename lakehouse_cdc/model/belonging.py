"""Whether a checkpoint, bronze and silver belong together, and what a start does where they do not.

The three are kept in different places, so any of them can be deleted, restored from a backup or moved by itself. What
ties them:

- bronze's change table has the id that Delta gave it. The checkpoint names it, in a file beside it that is written
  before bronze's first batch.
- the checkpoint has the id that Spark gave its query. Every commit of bronze names it, with the number of the batch, in
  its note (see `model.commit_note`); so bronze and the checkpoint cannot disagree about a batch without it being seen.
- silver's ledger names the id of the change table that silver was made from, and has a row for each of its batches.

Why this suffices. Spark writes down the end of batch n before it executes it, and its completion after it, so when
nothing runs bronze's newest batch is the last complete one or the one after it, which is planned. A checkpoint from a
backup is older than that: bronze has a batch that it has not planned, or planned with another end. To continue from
there would lose rows, because bronze takes a batch number once. A change table from a backup lacks a complete batch. A
checkpoint of another pipeline, or of a deleted table, names another id. Silver's tables may be older than its
checkpoint: put back from a backup, or those of a schema to which the configuration returns. Bronze has what they lack,
and a change that they hold changes nothing when it comes again, so they begin with bronze's first batch.

`relation` compares what was found, `decide` is a table of every combination. Both are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakehouse_cdc.model.commit_note import CommitNote, SourcePoint


class Tie(Enum):
    """How the checkpoint and the change table are related."""

    NEITHER = "neither has a complete batch"
    TOGETHER = "they belong together"
    NEW_CHECKPOINT = "the checkpoint is new, the change table holds batches of an earlier one"
    TABLE_GONE = "the checkpoint has complete batches, and there is no change table"
    OTHER_TABLE = "the checkpoint belongs to another change table"
    OLDER_CHECKPOINT = "the change table holds batches that the checkpoint does not have"
    OLDER_TABLE = "the checkpoint has complete batches that the change table does not hold"


class Silver(Enum):
    """What there is of silver."""

    NONE = "no table, and no batch in its checkpoint"
    MATCHING = "made from this change table"
    LEFT = "tables, and no change table that they were made from"
    FOREIGN = "made from another change table"
    LOST = "its checkpoint has complete batches, and its ledger is gone"
    OLDER = "made from this change table, and older than its checkpoint"


class Plan(Enum):
    """The batch that Spark has planned and not completed."""

    NONE = "there is none"
    HELD = "bronze has committed it"
    SAME = "bronze has not committed it; the configuration is the one that planned it"
    CHANGED = "bronze has not committed it; another configuration planned it, or it is not known which"


class Action(Enum):
    """What a start does first."""

    BEGIN = "begin with the first epoch"
    GO_ON = "continue"
    BEGIN_EPOCH = "begin a new epoch over the tables, in which every table is read again"
    REFUSE = "refuse"


class PlanAction(Enum):
    """What becomes of the planned batch."""

    NOTHING = "nothing, or Spark executes it"
    PASS = "Spark completes it without reading anything: its rows are in bronze"
    REMOVE = "it is removed, and planned again"


@dataclass(frozen=True)
class Decision:
    """What a start does. `why` is what it refuses for; `rebuild` is why silver's checkpoint is removed."""

    action: Action
    plan: PlanAction = PlanAction.NOTHING
    rebuild: Silver | None = None
    why: Tie | Silver | None = None


@dataclass(frozen=True)
class CheckpointRecord:
    """What the checkpoint of bronze's stream says; batches are None where there is none.

    `names` is the id of the change table that it belongs to, None where no file says it (an earlier release, or a
    checkpoint that has never had a table). `ends` are the ends of the last two planned batches.
    """

    query: str | None = None
    planned: int | None = None
    complete: int | None = None
    names: str | None = None
    ends: dict[int, SourcePoint] | None = None


@dataclass(frozen=True)
class BronzeRecord:
    """The change table: its id, and the note of its newest batch, None where its log has none.

    `rows`: whether it holds any. `last_of_query` is the newest batch of the checkpoint's query that Delta remembers,
    where the note of none can be read any more and Delta can be asked.
    """

    id: str
    last: CommitNote | None = None
    rows: bool = False
    last_of_query: int | None = None


def relation(checkpoint: CheckpointRecord, bronze: BronzeRecord | None) -> Tie:
    """How they are related."""
    if bronze is None:
        return Tie.NEITHER if checkpoint.complete is None else Tie.TABLE_GONE
    holds = bronze.last is not None or bronze.rows
    if checkpoint.planned is None:
        return Tie.NEW_CHECKPOINT if holds else Tie.NEITHER
    if checkpoint.names not in (None, bronze.id):
        return Tie.OTHER_TABLE if checkpoint.complete is not None or holds else Tie.NEITHER
    if bronze.last is None and not bronze.rows:
        return Tie.NEITHER if checkpoint.complete is None else Tie.OLDER_TABLE
    return _by_batch(checkpoint, bronze)


def _by_batch(checkpoint: CheckpointRecord, bronze: BronzeRecord) -> Tie:
    """By the newest batch of a change table that has some."""
    last, planned, complete = bronze.last, checkpoint.planned, checkpoint.complete
    assert planned is not None
    if last is None:  # Delta keeps the notes of a log for a limited time
        known = bronze.last_of_query is not None or checkpoint.names is not None
        return Tie.TOGETHER if known else Tie.OTHER_TABLE if complete is not None else Tie.NEW_CHECKPOINT
    if last.query != checkpoint.query:
        if complete is not None:
            return Tie.OTHER_TABLE if checkpoint.names is None else Tie.OLDER_CHECKPOINT
        planned_end = (checkpoint.ends or {}).get(planned)
        begun = planned_end is not None and planned_end.epoch > last.source_point.epoch
        return Tie.TOGETHER if begun and checkpoint.names is not None else Tie.NEW_CHECKPOINT
    end = (checkpoint.ends or {}).get(last.batch)
    if last.batch > planned or (end is not None and end != last.source_point):
        return Tie.OLDER_CHECKPOINT
    return Tie.TOGETHER if complete is None or last.batch >= complete else Tie.OLDER_TABLE


_PLANS = {
    Plan.NONE: PlanAction.NOTHING,
    Plan.HELD: PlanAction.PASS,
    Plan.SAME: PlanAction.NOTHING,
    Plan.CHANGED: PlanAction.REMOVE,
}
_TIES = {
    Tie.NEITHER: Action.BEGIN,
    Tie.TOGETHER: Action.GO_ON,
    Tie.NEW_CHECKPOINT: Action.BEGIN_EPOCH,
    Tie.TABLE_GONE: Action.REFUSE,
    Tie.OTHER_TABLE: Action.REFUSE,
    Tie.OLDER_CHECKPOINT: Action.REFUSE,
    Tie.OLDER_TABLE: Action.REFUSE,
}
_SILVERS = {  # whether silver is refused where the change table has no batch, and where it has some
    Silver.NONE: (False, False),
    Silver.MATCHING: (True, False),
    Silver.LEFT: (True, False),
    Silver.FOREIGN: (True, True),
    Silver.LOST: (False, False),
    Silver.OLDER: (True, False),
}

_REBUILT = (Silver.LOST, Silver.OLDER)


def decide(tie: Tie, silver: Silver, plan: Plan) -> Decision:
    """What a start does, before anything is read or written."""
    action = _TIES[tie]
    if action is Action.REFUSE:
        return Decision(action, why=tie)
    if _SILVERS[silver][action is not Action.BEGIN]:
        return Decision(Action.REFUSE, why=silver)
    planned = _PLANS[plan]
    if action is Action.BEGIN_EPOCH and plan is not Plan.NONE:
        planned = PlanAction.REMOVE  # it was planned as if there were no tables
    return Decision(action, planned, rebuild=silver if silver in _REBUILT else None)
