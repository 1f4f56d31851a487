"""What the server's global variables must be, judged one by one: MySQL 5.7 and later, and MariaDB.

A variable that a server does not have is one whose effect it does not have either, so an absent one is judged as the
value that does nothing. MySQL before 8.0 and MariaDB cannot SET PERSIST: there the remedy names the option file, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from lakehouse_cdc.errors import Code, DefiniteError, Scope, codes
from lakehouse_cdc.model.log_retention import AGE, DAY, DAYS, Retention
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.connection.session import Session, Version

Severity = Literal["ok", "warning", "error"]
_RECONNECT = "then let the sessions that write connect again; on a managed server, set it in the parameter group"


@dataclass(frozen=True)
class Finding:
    """One condition: its name, how serious it is, what was found, and what to do ("" where nothing is to be done).

    `code` is that of the error that a finding of severity `error` becomes.
    """

    name: str
    severity: Severity
    what: str
    hint: str = ""
    code: Code[DefiniteError] = codes.SERVER_UNFIT

    @property
    def is_of_table(self) -> bool:
        """Whether it keeps one table, which is its name, from being captured, and no other."""
        return self.severity == "error" and self.code.scope is not Scope.PIPELINE

    def as_json(self) -> dict[str, str | None]:
        """With the code of an error as CDC-NNNN."""
        code = self.code.label if self.severity == "error" else None
        return {"name": self.name, "severity": self.severity, "what": self.what, "hint": self.hint, "code": code}


@dataclass(frozen=True)
class Settings:
    """The global variables of one server, by lower-case name."""

    values: Mapping[str, str]
    version: Version
    is_mariadb: bool

    @classmethod
    def of(cls, session: Session) -> Settings:
        return cls(server.settings(session), session.version, session.is_mariadb)

    def get(self, name: str, absent: str = "") -> str:
        """A variable's value, `absent` where the server does not have it."""
        return self.values.get(name, absent)

    def is_on(self, name: str) -> bool:
        """Whether a switch is there and on."""
        return self.get(name, "OFF").upper() in ("ON", "1")

    def remedy(self, name: str, value: str) -> str:
        """How to change a variable for good."""
        if self.is_mariadb or self.version < (8, 0, 0):
            return f"SET GLOBAL {name} = {value}, and write it into the server's option file"
        return f"SET PERSIST {name} = {value}"


def judge(settings: Settings) -> list[Finding]:
    """One finding for each condition."""
    return [judged(settings) for judged in _JUDGES]


def _wanted(name: str, wanted: str, otherwise: str) -> Callable[[Settings], Finding]:
    """A variable that must have one value, since otherwise something goes wrong."""

    def judged(settings: Settings) -> Finding:
        value = settings.get(name, wanted)
        if value.upper() == wanted:
            return Finding(name, "ok", f"{name} is {value or 'empty'}")
        return Finding(
            name, "error", f"{name} is {value}: {otherwise}", f"{settings.remedy(name, wanted)}, {_RECONNECT}"
        )

    return judged


def _log_bin(settings: Settings) -> Finding:
    if settings.is_on("log_bin"):
        return Finding("log_bin", "ok", "log_bin is ON")
    hint = "set log_bin in the server's option file and restart it"
    return Finding("log_bin", "error", "log_bin is OFF: the server writes no binlog", hint)


def _row_metadata(settings: Settings) -> Finding:
    name = "binlog_row_metadata"
    value = settings.get(name)
    if value == "FULL":
        return Finding(name, "ok", f"{name} is FULL: every table map is checked against the known schema")
    has = f"{name} is {value}" if value else f"this version has no {name}"
    what = "names, labels and keys of columns come from INFORMATION_SCHEMA and the DDL in the binlog alone"
    return Finding(name, "ok", f"{has}: {what}")


def _value_options(settings: Settings) -> Finding:
    name = "binlog_row_value_options"
    value = settings.get(name)
    if not value:
        return Finding(name, "ok", f"{name} is empty")
    return Finding(name, "ok", f"{name} is {value}: JSON documents are put together from their changes")


def _compression(settings: Settings) -> Finding:
    name = "log_bin_compress" if settings.is_mariadb else "binlog_transaction_compression"
    if not settings.is_on(name):
        return Finding(name, "ok", f"{name} is OFF")
    return Finding(name, "ok", f"{name} is ON: compressed transactions are read, and expanded piece by piece")


def _checksum(settings: Settings) -> Finding:
    value = settings.get("binlog_checksum", "NONE")
    if value == "CRC32":
        return Finding("binlog_checksum", "ok", "binlog_checksum is CRC32")
    what = f"binlog_checksum is {value}: events carry no checksum, which is read as well"
    return Finding("binlog_checksum", "ok", what)


def _encryption(settings: Settings) -> Finding:
    name = "encrypt_binlog" if settings.is_mariadb else "binlog_encryption"
    if settings.is_on(name):
        return Finding(name, "ok", f"{name} is ON: the server decrypts for its readers; use tls for the way to them")
    return Finding(name, "ok", f"{name} is OFF: binlog files lie in plain text on the server's disk")


def _server_id(settings: Settings) -> Finding:
    value = settings.get("server_id", "0")
    if value == "0":
        return Finding(
            "server_id", "error", "server_id is 0: the server refuses everyone who wants to read its binlog",
            f"{settings.remedy('server_id', '1')}, or any number that no other server of the replication has",
        )  # fmt: skip
    return Finding("server_id", "ok", f"server_id is {value}")


def retention(settings: Settings, kept: Retention) -> Finding:
    """How long the server keeps its binlog, by its own limits."""
    seconds, most = kept.seconds, f"up to {kept.bytes:,} bytes ({kept.by_size})" if kept.bytes is not None else ""
    size = f", {most}" if most else ""
    if seconds is None:
        return Finding("retention", "ok", f"the server keeps its binlog files {most or 'until somebody purges them'}")
    if seconds < DAY:
        hint = "CALL mysql.rds_set_configuration('binlog retention hours', 72)"
        if kept.by_age in (AGE, DAYS):
            hint = settings.remedy(AGE, "259200") if AGE in settings.values else settings.remedy(DAYS, "3")
        return Finding(
            "retention", "warning",
            f"binlog files are purged after {seconds / 3600:.1f} hours{size}: a longer pause of the stream would be a"
            " gap",
            f"{hint} (three days), or more",
        )  # fmt: skip
    return Finding("retention", "ok", f"the server keeps its binlog files for {seconds / DAY:.1f} days{size}")


def _gtids(settings: Settings) -> Finding:
    if settings.is_mariadb:
        what = "MariaDB's GTIDs are recorded; that a commit is visible is known by waiting"
        return Finding("gtid_mode", "ok", what)
    mode = settings.get("gtid_mode", "OFF")
    if mode == "ON":
        return Finding("gtid_mode", "ok", "gtid_mode is ON")
    by = "the PROCESS right or by waiting" if settings.version >= (8, 0, 0) else "waiting"
    return Finding(
        "gtid_mode", "ok",
        f"gtid_mode is {mode}: that a commit is visible is known by {by}, and the stream cannot be carried over to"
        " another server",
    )  # fmt: skip


def obstacles(settings: Settings) -> list[str]:
    """What keeps a stream from following to this server, or from it to another one, as far as settings say."""
    lacking = []
    logs = settings.get("log_replica_updates") or settings.get("log_slave_updates", "OFF")
    if not settings.is_mariadb:
        wanted = [("gtid_mode", "ON"), ("enforce_gtid_consistency", "ON")]
        lacking = [f"{name} is not ON" for name, value in wanted if settings.get(name).upper() != value]
    if logs != "ON":
        lacking.append(f"log_{'slave' if settings.is_mariadb else 'replica'}_updates is not ON")
    return lacking


def _doubts(settings: Settings) -> list[str]:
    """What may keep it from that at times."""
    if settings.is_mariadb:
        strict = settings.is_on("gtid_strict_mode")
        return [] if strict else ["gtid_strict_mode is OFF: servers of before the last backup count as missing"]
    workers = settings.get("replica_parallel_workers") or settings.get("slave_parallel_workers", "0")
    keeps = settings.get("replica_preserve_commit_order") or settings.get("slave_preserve_commit_order", "OFF")
    if int(workers or 0) > 1 and keeps.upper() not in ("ON", "1"):
        return ["as a replica it commits in another order (replica_preserve_commit_order), which may be refused"]
    return []


def _failover(settings: Settings) -> Finding:
    """What a failover would mean: only GTIDs say what another server has of what was captured here."""
    if lacking := obstacles(settings):
        return Finding(
            "failover", "ok", f"a stream could not follow to another server, since {', '.join(lacking)}; it would be"
            " refused (source.on_gap: resnapshot reads all tables again)",
        )  # fmt: skip
    doubts = "".join(f"; {doubt}" for doubt in _doubts(settings))
    return Finding(
        "failover", "ok", "a stream can follow to another server of the replication group (source.on_failover: follow)"
        f"{doubts}",
    )  # fmt: skip


def _durability(settings: Settings) -> Finding:
    names = ("sync_binlog", "innodb_flush_log_at_trx_commit")
    weak = [name for name in names if settings.get(name, "1") != "1"]
    if weak:
        return Finding(
            "durability", "warning",
            f"{', '.join(f'{name} is {settings.get(name)}' for name in weak)}: if the machine crashes, the server may"
            " forget transactions that were captured already",
            f"{'; '.join(settings.remedy(name, '1') for name in weak)}; after such a crash run verify",
        )  # fmt: skip
    return Finding("durability", "ok", "what the binlog shows survives a crash")


_JUDGES: tuple[Callable[[Settings], Finding], ...] = (
    _log_bin,
    _wanted("binlog_format", "ROW", "the binlog would hold statements instead of rows"),
    _wanted("binlog_row_image", "FULL", "the binlog would hold parts of rows"),
    _row_metadata,
    _value_options,
    _compression,
    _checksum,
    _encryption,
    _server_id,
    _gtids,
    _failover,
    _durability,
)
