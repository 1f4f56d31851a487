"""How long a server keeps the binlog that a stream still needs: the rules by which it purges files, and what is left.

A server purges whole files, the oldest first, and only when it ends one, starts or is asked to; MariaDB from 11.4 on
also waits until replicas are connected (slave_connections_needed_for_purge). So each answer is the earliest moment, not
the expected one.

- By age: a file may go when its last write is older than the limit. That write is the one with which the next file
  begins. The newest file is never purged: from now on it has the whole limit before it.
- By size: files go while all that are left are larger than the limit. So a file stays until those from it on, as they
  grow, exceed the limit.

A limit of 0 is none, but for Amazon RDS' own setting: there NULL is "as soon as possible".

Sources: MySQL Reference Manual, binlog_expire_logs_seconds, expire_logs_days and binlog_expire_logs_auto_purge;
MariaDB documentation, binlog_expire_logs_seconds and max_binlog_total_size (its other name is Percona Server's,
binlog_space_limit); Amazon RDS User Guide, mysql.rds_set_configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DAY = 86_400
AGE, DAYS = "binlog_expire_logs_seconds", "expire_logs_days"
_SCARCE = 0.25  # of what the server keeps
_RDS = "binlog retention hours"


@dataclass(frozen=True)
class Retention:
    """A server's limits, in seconds after the last write to a file and in bytes of all files; None for no limit.

    `by_age` and `by_size` are the names of the settings that say so.
    """

    seconds: float | None = None
    bytes: int | None = None
    by_age: str = ""
    by_size: str = ""

    @classmethod
    def of(cls, settings: Mapping[str, str], rds: Mapping[str, str | None] | None = None) -> Retention:
        """By the global variables (lower-case names), and by RDS' own settings, where it is such a server."""
        size, by_size = _first(settings, "max_binlog_total_size", "binlog_space_limit")
        limit = int(size) or None
        if rds is not None and _RDS in rds:
            return cls(float(rds[_RDS] or 0) * 3600, limit, f"{_RDS} of mysql.rds_configuration", by_size)
        if settings.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
            return cls(None, limit, "", by_size)
        seconds, by_age = _first(settings, AGE, DAYS)
        seconds *= DAY if by_age == DAYS else 1
        return cls(seconds or None, limit, by_age if seconds else "", by_size)


def _first(settings: Mapping[str, str], *names: str) -> tuple[float, str]:
    """The first setting of these that is not 0, and its name."""
    given = ((float(settings.get(name) or 0), name) for name in names)
    return next(((value, name) for value, name in given if value), (0.0, ""))


@dataclass(frozen=True)
class Headroom:
    """In how many seconds the oldest file that is needed may be purged, at the earliest; None: by no limit.

    `by` is the setting that decides. `scarce`: little of what the server keeps is left, or none.
    """

    seconds: float | None
    by: str = ""
    scarce: bool = False

    @property
    def sentence(self) -> str:
        """What a person reads."""
        if self.seconds is None:
            return "the server keeps the binlog that is still needed until somebody purges it"
        if not self.by:
            return "the server has purged binlog that is still needed"
        if not self.seconds:
            return f"the server may purge binlog that is still needed at any time ({self.by})"
        return f"the server keeps the binlog that is still needed for {_duration(self.seconds)} at least ({self.by})"


def headroom(
    retention: Retention,
    sizes: Sequence[tuple[str, int]],
    needed: str,
    *,
    ended_ago: float | None,
    growth: float | None,
) -> Headroom:
    """What is left for the file `needed` among the server's files, `sizes` by name, oldest first.

    `ended_ago`: seconds since the file after it began; None for the newest. `growth`: bytes a second, where known.
    """
    names = [name for name, _ in sizes]
    if needed not in names:
        return Headroom(0.0, "", scarce=True)
    limits: list[tuple[float, float, str]] = []  # seconds left, of how many, by which setting
    if retention.seconds is not None:
        left = retention.seconds - (ended_ago or 0.0)
        limits.append((max(left, 0.0), retention.seconds, retention.by_age))
    if retention.bytes is not None:
        bytes_left = max(retention.bytes - sum(size for _, size in sizes[names.index(needed) :]), 0)
        if growth:
            limits.append((bytes_left / growth, retention.bytes / growth, retention.by_size))
        elif not bytes_left:
            limits.append((0.0, 1.0, retention.by_size))
    if not limits:
        return Headroom(None)
    seconds, whole, by = min(limits)
    return Headroom(seconds, by, scarce=seconds <= _SCARCE * whole)


def growth(sizes: Sequence[tuple[str, int]], since: str, seconds: float) -> float | None:
    """Bytes a second of the files from `since` on, which began so many seconds ago; None where that says nothing."""
    names = [name for name, _ in sizes]
    if since not in names or seconds < 1:
        return None
    return sum(size for _, size in sizes[names.index(since) :]) / seconds


def _duration(seconds: float) -> str:
    for unit, size in (("days", DAY), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.0f} seconds"
