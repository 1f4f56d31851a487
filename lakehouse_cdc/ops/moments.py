"""From a time, a GTID or a binlog position to the one order that all tables share: a seq, up to which changes count.

A seq stands for the state of the source behind the last transaction whose rows are not above it. Transactions that
change no captured table have no rows, and do not matter: a moment may lie anywhere between the rows around it.

- A position counts all transactions that end there or before.
- A time counts those before the first one that was committed after it, in the order of the binlog; a transaction that
  says an earlier time but stands behind that one is not counted, for then there would be no such state of the source.
- A GTID stands for the moment just behind its transaction; a set for the state that holds just its transactions. Where
  the rows of bronze do not tell that moment from another, or the source was never in that state, it is refused.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.model.gtid import GtidSet
from lakehouse_cdc.model.moment import Moment
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.seq import behind, last_at, unpack
from lakehouse_cdc.model.standing import Standing

_GTID = r"^(.*)[-:](\d+)$"


def seq_of(moment: Moment, changes: DataFrame, newest: Standing) -> int:
    """The seq of a moment, by the rows of bronze, which stands at `newest`.

    Raises ConfigError for one that cannot be read, DefiniteError for one that bronze has not reached or cannot tell.
    """
    if moment.position is not None:
        return _of_position(moment.position, newest)
    if moment.gtid is not None:
        return _of_gtid(moment.gtid, changes, newest)
    assert moment.timestamp is not None
    return _of_time(moment.timestamp, changes, newest)


def _of_position(text: str, newest: Standing) -> int:
    file, _, pos = text.rpartition(":")
    if not file or not pos.isdecimal():
        raise ConfigError(f"'{text}' is no position", hint="write FILE:POS, as binlog.000042:1234")
    asked, reached = Position(file, int(pos)), Position(newest.file, newest.pos)
    if asked > reached:
        raise _not_reached(text, newest)
    return last_at(newest.epoch, asked)


def _of_time(asked: datetime | str, changes: DataFrame, newest: Standing) -> int:
    try:
        time = datetime.fromisoformat(asked) if isinstance(asked, str) else asked
    except ValueError as error:
        raise ConfigError(f"'{asked}' is no time", hint="write it as 2026-01-31T12:00:00+00:00") from error
    if time.tzinfo is None:
        raise ConfigError(f"'{asked}' could be a time of any zone", hint="add the zone, as +00:00")
    micros = round(time.timestamp() * 1_000_000)
    if newest.commit_ts <= micros:
        raise _not_reached(str(asked), newest)
    found = changes.where(F.col("commit_ts") > F.timestamp_micros(F.lit(micros))).agg(F.min("seq")).head()
    return int(found[0]) - 1 if found is not None and found[0] is not None else newest.seq


def _of_gtid(text: str, changes: DataFrame, newest: Standing) -> int:
    asked = GtidSet.parse(text)
    if not asked:
        raise ConfigError("an empty GTID set is no moment", hint="name a GTID, as uuid:42, or a set")
    if not newest.gtid:
        raise DefiniteError("the source writes no GTIDs", hint="ask for a position or a time")
    if not GtidSet.parse(newest.gtid).contains(asked):
        raise _not_reached(text, newest)
    known = changes.where("position.gtid <> ''").select(
        "seq",
        F.regexp_extract("position.gtid", _GTID, 1).alias("source"),
        F.regexp_extract("position.gtid", _GTID, 2).cast("bigint").alias("number"),
    )
    if (one := asked.single) is not None:
        return _behind(text, known, *one, newest)
    within = _within(asked)
    found = known.agg(_max_where(within), _min_where(~within)).head()
    low, high = (None, None) if found is None else found
    if low is not None and high is not None and low > high:
        what = "the source was in no such state: other transactions came in between"
        raise DefiniteError(what, where=text, hint="ask for one GTID, uuid:n, to have the moment behind it")
    return _between(text, low, high, newest)


def _behind(text: str, known: DataFrame, source: str, number: int, newest: Standing) -> int:
    """Behind one transaction, or, where it has no rows, between those of its source that stand around it."""
    same = F.col("source") == source
    found = known.agg(
        _max_where(same & (F.col("number") == number)),
        _max_where(same & (F.col("number") < number)),
        _min_where(same & (F.col("number") > number)),
    ).head()
    exact, low, high = (None, None, None) if found is None else found
    if exact is not None:
        return behind(int(exact))
    others = known.where(~same)
    if low is not None:
        others = others.where(f"seq > {low}BD")
    if high is not None:
        others = others.where(f"seq < {high}BD")
    if (low is not None and high is not None and low > high) or not others.isEmpty():
        what = "that transaction changed no captured table, and bronze cannot tell whether others came before it"
        raise DefiniteError(what, where=text, hint="ask for a position, or for a GTID that changed one")
    return _between(text, low, high, newest)


def _between(text: str, low: int | None, high: int | None, newest: Standing) -> int:
    """Any seq behind the one and below the other: no row lies between."""
    next_epoch = newest.epoch if high is None else unpack(int(high)).epoch
    if low is not None and unpack(int(low)).epoch != next_epoch:
        what = f"{text} cannot be had: the source's log has a gap around there, or began anew"
        raise DefiniteError(
            what, where=text, hint="ask for a GTID that changed a captured table, or for a later moment"
        )
    if low is not None:
        return behind(int(low))
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


def _not_reached(asked: str, newest: Standing) -> DefiniteError:
    return DefiniteError(
        f"bronze has not reached {asked}",
        where=f"{newest.file}:{newest.pos}",
        hint="run, then ask again; a time is reached once a later transaction has been read",
    )
