"""From a time, a GTID or a binlog position to the one order that all tables share: a seq, up to which changes count.

A seq stands for the state of the source after the last transaction whose rows are not above it. Transactions that
change no captured table have no rows, and do not matter: a moment may lie anywhere between the rows around it.

- A position counts all transactions that end there or before.
- A time counts those before the first one whose *effective* commit time (see `model.clock`) is later, in the order of
  the binlog. A transaction that says an earlier time after that one is not counted, for then there would be no such
  state of the source; and a time that no clock could have said when the transaction was read does not count at all.
- A GTID stands for the moment just after its transaction; a set for the state that holds just its transactions. Where
  the rows of bronze do not distinguish that moment from another, or the source was never in that state, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.clock import Mark, Timeline
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import last_at, last_seq_of_position, unpack

_GTID = r"^(.*)[-:](\d+)$"


Marks = Callable[[int], Timeline]


def seq_of(moment: Moment, changes: DataFrame, newest: SourcePoint, marks: Marks = lambda _: Timeline(())) -> int:
    """The seq of a moment, by the rows of bronze, which is at `newest`.

    `marks` gives those that matter for a time (microseconds since 1970): see `ops.timeline`.
    Raises ConfigError for one that cannot be read, DefiniteError for one that bronze has not reached or cannot
    determine.
    """
    if moment.position is not None:
        return _of_position(moment.position, newest)
    if moment.gtid is not None:
        return _of_gtid(moment.gtid, changes, newest)
    assert moment.timestamp is not None
    return _of_time(moment.timestamp, changes, newest, marks)


def _of_position(text: str, newest: SourcePoint) -> int:
    asked, reached = Position.parse(text), Position(newest.file, newest.pos)
    if asked > reached:
        raise _not_reached(text, newest)
    return last_at(newest.epoch, asked)


def _of_time(asked: datetime | str, changes: DataFrame, newest: SourcePoint, marks: Marks) -> int:
    try:
        time = datetime.fromisoformat(asked) if isinstance(asked, str) else asked
    except ValueError as error:
        raise codes.MOMENT_INVALID.error(
            f"'{asked}' is no time", hint="write it as 2026-01-31T12:00:00+00:00"
        ) from error
    if time.tzinfo is None:
        raise codes.MOMENT_INVALID.error(f"'{asked}' could be a time of any zone", hint="add the zone, as +00:00")
    micros = round(time.timestamp() * 1_000_000)
    timeline = marks(micros)
    low, high = timeline.window(micros)
    if (first := _first_after(micros, changes, newest, timeline, low, high)) is not None:
        return first - 1
    if high is not None:
        return high.seq
    if newest.by or newest.commit_ts <= micros:  # a newest mark with bounds would be `high`
        raise _not_reached(str(asked), newest)
    return newest.seq


def _first_after(
    time: int, changes: DataFrame, newest: SourcePoint, timeline: Timeline, low: Mark | None, high: Mark | None
) -> int | None:
    """The first seq between the marks whose credible stamp is later than `time`.

    What is not credible is found out by one query for each mark before which there is such a stamp, which are few.
    """
    stamp = F.unix_micros("commit_ts")
    rows = changes.where(F.col("commit_ts") > F.timestamp_micros(F.lit(time))).where(f"seq <= {newest.seq}BD")
    if low is not None:
        rows = rows.where(f"seq > {low.seq}BD")
    if high is not None:
        rows = rows.where(f"seq <= {high.seq}BD")
        rows = rows.where(F.col("commit_ts") <= F.timestamp_micros(F.lit(high.bounds.by)))
    while True:
        row = rows.agg(F.min(F.struct("seq", stamp.alias("stamp"))).alias("first")).head()
        if row is None or row["first"] is None:
            return None
        seq, committed = int(row["first"]["seq"]), int(row["first"]["stamp"])
        mark = timeline.mark_of(seq)
        if mark is None or committed <= mark.bounds.by:
            return seq
        beyond = F.col("commit_ts") > F.timestamp_micros(F.lit(mark.bounds.by))
        rows = rows.where(~(beyond & F.expr(f"seq <= {mark.seq}BD")))


def _of_gtid(text: str, changes: DataFrame, newest: SourcePoint) -> int:
    asked = GtidSet.parse(text)
    if not asked:
        raise codes.MOMENT_INVALID.error("an empty GTID set is no moment", hint="name a GTID, as uuid:42, or a set")
    if not newest.gtid:
        raise codes.MOMENT_UNRESOLVED.error("the source writes no GTIDs", hint="ask for a position or a time")
    if not GtidSet.parse(newest.gtid).contains(asked):
        raise _not_reached(text, newest)
    known = changes.where("position.gtid <> ''").select(
        "seq",
        F.regexp_extract("position.gtid", _GTID, 1).alias("source"),
        F.regexp_extract("position.gtid", _GTID, 2).cast("bigint").alias("number"),
    )
    if (one := asked.single) is not None:
        return _after_transaction(text, known, *one, newest)
    within = _within(asked)
    bounds = known.agg(_max_where(within), _min_where(~within)).head()
    low, high = (None, None) if bounds is None else bounds
    if low is not None and high is not None and low > high:
        what = "the source was in no such state: other transactions came in between"
        raise codes.MOMENT_UNRESOLVED.error(
            what, where=text, hint="ask for one GTID, uuid:n, to have the moment after it"
        )
    return _between(text, low, high, newest)


def _after_transaction(text: str, known: DataFrame, source: str, number: int, newest: SourcePoint) -> int:
    """After one transaction, or, where it has no rows, between those of its source that are around it."""
    same = F.col("source") == source
    bounds = known.agg(
        _max_where(same & (F.col("number") == number)),
        _max_where(same & (F.col("number") < number)),
        _min_where(same & (F.col("number") > number)),
    ).head()
    exact, low, high = (None, None, None) if bounds is None else bounds
    if exact is not None:
        return last_seq_of_position(int(exact))
    others = known.where(~same)
    if low is not None:
        others = others.where(f"seq > {low}BD")
    if high is not None:
        others = others.where(f"seq < {high}BD")
    if (low is not None and high is not None and low > high) or not others.isEmpty():
        what = "that transaction changed no captured table, and bronze cannot tell whether others came before it"
        raise codes.MOMENT_UNRESOLVED.error(what, where=text, hint="ask for a position, or for a GTID that changed one")
    return _between(text, low, high, newest)


def _between(text: str, low: int | None, high: int | None, newest: SourcePoint) -> int:
    """Any seq after the one and below the other: no row lies between."""
    next_epoch = newest.epoch if high is None else unpack(int(high)).epoch
    if low is not None and not newest.joins(unpack(int(low)).epoch, next_epoch):
        what = f"{text} cannot be had: the source's log has a gap around there, or began again"
        raise codes.MOMENT_UNRESOLVED.error(
            what, where=text, hint="ask for a GTID that changed a captured table, or for a later moment"
        )
    if low is not None:
        return last_seq_of_position(int(low))
    return int(high) - 1 if high is not None else newest.seq


def _within(asked: GtidSet) -> Column:
    within = F.lit(False)
    for source, spans in asked.sources.items():
        for first, end in spans:
            within |= (F.col("source") == source) & F.col("number").between(first, end - 1)
    return within


def _max_where(condition: Column) -> Column:
    return F.max(F.when(condition, F.col("seq")))


def _min_where(condition: Column) -> Column:
    return F.min(F.when(condition, F.col("seq")))


def _not_reached(asked: str, newest: SourcePoint) -> DefiniteError:
    return codes.MOMENT_NOT_REACHED.error(
        f"bronze has not reached {asked}",
        where=f"{newest.file}:{newest.pos}",
        hint="run, then ask again; a time is reached once a later transaction has been read",
    )
