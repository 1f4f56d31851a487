"""The options of `spark.read(Stream).format("mysql_cdc")`, checked before anything is asked of a server.

An option that is not known is refused: a misspelt one would silently change what is captured.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.mysql.connection.session import ConnectionOptions
from lakehouse_cdc.mysql.connection.tls import MODES
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.masks import HASH, LEAST_SALT, parsed, salted
from lakehouse_cdc.schema.representation import Rules, TypeMap, ZeroDates
from lakehouse_cdc.schema.selection import said_last
from lakehouse_cdc.sql.redaction import without_constants

Snapshot = Literal["initial", "never", "only"]
OnGap = Literal["fail", "resnapshot"]
SchemaChanges = Literal["evolve", "stop"]
Settle = Literal["auto", "gtid", "process", "snapshot", "age"]

_KNOWN = {
    name.lower(): name
    for name in (
        "url", "password", "tls", "tlsCa", "tables", "exclude", "snapshot", "onGap", "settle", "settleSeconds",
        "serverIds", "chunkRows", "chunkBytes", "chunksPerTrigger", "planSeconds", "maxRowsPerTrigger",
        "maxBytesPerTrigger", "splitBytes", "maxThreadsRunning", "maxReplicaLagSeconds", "idleSeconds", "schemaFolder",
        "asOf", "zeroDates", "typeMap", "types", "schemaChanges", "keys", "include", "masks", "maskSecret", "filesTo",
    )
}  # fmt: skip
_DEFAULT_IDS = (1_700_000_000, 1_700_009_999)  # of a source without a folder
_FIRST_IDS, _RANGES = 1_710_000_000, 250_000


@dataclass(frozen=True)
class SourceOptions:
    """One source's settings. Sizes in rows or bytes, times in seconds.

    `tables` are patterns on `database.table`, `!` excludes; `choice` says which columns are captured, and which masked
    (options exclude, include, masks); `mask_salt` is what hashes are made with (option maskSecret: Spark shows no value
    of an option with such a name); `schema_folder` is a folder beside the checkpoint for the schemas; `server_ids` an
    inclusive range of replica ids that nobody else uses; `rules` say how columns are carried (options zeroDates,
    typeMap, types). `schema_changes` maps patterns to what happens where a table's schema changes: it is followed
    (evolve), or the stream stops. A chunk has `chunk_rows` rows, or where that is None about `chunk_bytes` as the
    server stores them; a piece of the binlog has `split_bytes`, or what suits the length of all. `keys` maps patterns
    to the columns that tell the rows of tables without a primary key apart. `files_to` is the folder of a change table:
    tasks write its files there, and give a line for each.
    """

    connection: ConnectionOptions
    tables: tuple[str, ...]
    schema_folder: str
    choice: Choice = field(default_factory=Choice)
    mask_salt: str = field(default="", repr=False)
    rules: Rules = field(default_factory=Rules)
    schema_changes: Mapping[str, SchemaChanges] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    snapshot: Snapshot = "initial"
    on_gap: OnGap = "fail"
    settle: Settle = "auto"
    settle_seconds: float = 10.0
    server_ids: tuple[int, int] = _DEFAULT_IDS
    chunk_rows: int | None = None
    chunk_bytes: int = 32 << 20
    chunks_per_trigger: int = 64
    plan_seconds: float = 10.0
    max_rows: int | None = None
    max_bytes: int = 1 << 30
    split_bytes: int | None = None
    max_threads_running: int | None = None
    max_replica_lag_seconds: float | None = None
    idle_seconds: float = 30.0
    as_of: str = ""
    files_to: str = ""

    @classmethod
    def parse(cls, raw: Mapping[str, str], *, streaming: bool = True) -> SourceOptions:
        """Read Spark's option map. Raises ConfigError that names the option, never its value where it is secret."""
        given: dict[str, str] = {}
        for key, value in raw.items():
            if key.lower() not in _KNOWN:
                raise ConfigError(f"unknown option '{key}'", hint=f"known: {', '.join(sorted(_KNOWN.values()))}")
            given[_KNOWN[key.lower()]] = value
        for name in ("url", "tables") + (("schemaFolder",) if streaming else ()):
            if not given.get(name):
                raise ConfigError(f"option '{name}' is missing")
        connection = ConnectionOptions.from_url(
            given["url"],
            password=given.get("password", ""),
            tls=_one_of(given, "tls", MODES, "preferred"),
            tls_ca=given.get("tlsCa", ""),
        )
        values: dict[str, Any] = {
            "connection": connection,
            "tables": _words(given["tables"]),
            "schema_folder": given.get("schemaFolder", ""),
            "choice": Choice(_columns(given, "exclude"), _columns(given, "include"), _masks(given)),
            "mask_salt": given.get("maskSecret", ""),
            "keys": _columns(given, "keys"),
            "rules": _rules(given),
            "schema_changes": _schema_changes(given.get("schemaChanges", "{}")),
            "snapshot": cast(Snapshot, _one_of(given, "snapshot", ("initial", "never", "only"), "initial")),
            "on_gap": cast(OnGap, _one_of(given, "onGap", ("fail", "resnapshot"), "fail")),
            "settle": cast(Settle, _one_of(given, "settle", get_args(Settle), "auto")),
            "server_ids": _server_ids(given),
            "as_of": given.get("asOf", ""),
            "files_to": given.get("filesTo", ""),
        }
        numbers: tuple[tuple[str, str, type[int] | type[float]], ...] = (
            ("settleSeconds", "settle_seconds", float),
            ("chunkRows", "chunk_rows", int),
            ("chunkBytes", "chunk_bytes", int),
            ("chunksPerTrigger", "chunks_per_trigger", int),
            ("planSeconds", "plan_seconds", float),
            ("maxRowsPerTrigger", "max_rows", int),
            ("maxBytesPerTrigger", "max_bytes", int),
            ("splitBytes", "split_bytes", int),
            ("maxThreadsRunning", "max_threads_running", int),
            ("maxReplicaLagSeconds", "max_replica_lag_seconds", float),
            ("idleSeconds", "idle_seconds", float),
        )
        for option, attribute, kind in numbers:
            if option in given:
                values[attribute] = _positive(option, given[option], kind)
        return cls(**values)

    def stops(self, table: str) -> bool:
        """Whether the stream stops where the table's schema changes; the last pattern that matches decides."""
        return said_last(self.schema_changes, table) == "stop"

    def shown(self, statement: str) -> str:
        """What an error says of a statement: its begin, without constants where any column is masked."""
        return (without_constants(statement) if self.choice.masks else statement)[:200]


def _words(text: str) -> tuple[str, ...]:
    """A JSON list, or words between commas."""
    words = json.loads(text) if text.lstrip().startswith("[") else text.split(",")
    found = tuple(str(w).strip() for w in words if str(w).strip())
    if not found:
        raise ConfigError("option 'tables' names no table", hint='for example "shop.*,!shop.audit"')
    return found


def _one_of(given: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = given.get(name, default).lower()
    if value not in allowed:
        raise ConfigError(f"option '{name}' is '{value}'", hint=f"one of {', '.join(allowed)}")
    return value


def _positive(name: str, text: str, kind: type[int] | type[float]) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise ConfigError(f"option '{name}' is '{text}'", hint="expected a number") from None
    if value <= 0:
        raise ConfigError(f"option '{name}' is {text}", hint="expected a number above zero")
    return value


def _server_ids(given: Mapping[str, str]) -> tuple[int, int]:
    """By default ten thousand for each folder, most likely its own: pipelines that read one server differ in that."""
    folder = given.get("schemaFolder", "")
    if "serverIds" in given:
        return _id_range(given["serverIds"])
    if not folder:
        return _DEFAULT_IDS
    number = int.from_bytes(hashlib.sha256(folder.encode()).digest()[:8], "big") % _RANGES
    first = _FIRST_IDS + number * 10_000
    return first, first + 9_999


def _id_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        low, high = int(first), int(last)
    except ValueError:
        raise ConfigError(f"option 'serverIds' is '{text}'", hint="expected FIRST-LAST, such as 6000-6063") from None
    if not 0 < low < high < 2**32:
        raise ConfigError(f"option 'serverIds' is '{text}'", hint="at least two ids between 1 and 4294967295")
    return low, high


def _rules(given: Mapping[str, str]) -> Rules:
    try:
        types = {table: dict(columns) for table, columns in json.loads(given.get("types", "{}")).items()}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError("option 'types' is not a JSON object of table: {column: text or native}") from None
    for choice in (choice for columns in types.values() for choice in columns.values()):
        if choice not in ("text", "native"):
            raise ConfigError(f"option 'types' says '{choice}'", hint="one of text, native")
    return Rules(
        zero_dates=cast(ZeroDates, _one_of(given, "zeroDates", ("fail", "null", "text"), "fail")),
        type_map=cast(TypeMap, _one_of(given, "typeMap", ("native", "lakeflow"), "native")),
        types=types,
    )


def _schema_changes(text: str) -> dict[str, SchemaChanges]:
    try:
        found = dict(json.loads(text))
    except (ValueError, TypeError):
        raise ConfigError("option 'schemaChanges' is not a JSON object of table: evolve or stop") from None
    for what in found.values():
        if what not in get_args(SchemaChanges):
            hint = f"one of {', '.join(get_args(SchemaChanges))}"
            raise ConfigError(f"option 'schemaChanges' says '{what}'", hint=hint)
    return found


def _columns(given: Mapping[str, str], name: str) -> dict[str, tuple[str, ...]]:
    try:
        return {table: tuple(columns) for table, columns in json.loads(given.get(name, "{}")).items()}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"option '{name}' is not a JSON object of table: [columns]") from None


def _masks(given: Mapping[str, str]) -> dict[str, dict[str, str]]:
    salt = given.get("maskSecret", "")
    try:
        found = {
            table: {column: parsed(mask) for column, mask in columns.items()}
            for table, columns in json.loads(given.get("masks", "{}")).items()
        }
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(
            "option 'masks' is not a JSON object of table: {column: mask}",
            hint="a mask is null, hash, {keep_first: n} or {keep_last: n}",
        ) from None
    if any(HASH in columns.values() for columns in found.values()) and len(salt) < LEAST_SALT:
        what = "a column is masked by hash, and there is no salt" if not salt else "the salt of masks is too short"
        hint = f"source.mask_salt, {LEAST_SALT} random characters or more, such as openssl rand -hex 32 gives"
        raise ConfigError(what, where="source.mask_salt", hint=hint)
    return {table: {name: salted(mask, salt) for name, mask in columns.items()} for table, columns in found.items()}


def replica_ids(ids: tuple[int, int], begin: int | None = None) -> Iterator[int]:
    """Ids of the range but for its first, which is the planner's, for ever: `begin`, if it is given, then any.

    A server ends the older of two readers with one id. That one goes on with another, or both would end each other in
    turn. Which it is decides about no row.
    """
    first, last = ids
    if begin is not None:
        yield begin
    while True:
        yield random.randint(first + 1, last)
