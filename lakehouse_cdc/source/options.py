"""The options of `spark.read(Stream).format("mysql_cdc")`, checked before anything is asked of a server.

They are declared in `lakehouse_cdc.options.source`. An option that is not known is refused: a misspelt one would
silently change what is captured.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake import file_systems
from lakehouse_cdc.model.place import Storage, is_url
from lakehouse_cdc.model.start_point import NOW, StartPoint
from lakehouse_cdc.model.table_name import last_match
from lakehouse_cdc.mysql.connection.session import ConnectionOptions
from lakehouse_cdc.options.connection import connection_of
from lakehouse_cdc.options.declaration import Option, declared_in, nearest
from lakehouse_cdc.options.kinds import Invalid
from lakehouse_cdc.options.nested import MapOf
from lakehouse_cdc.options.source import (
    CapturedTable,
    OnError,
    Places,
    SchemaChanges,
    SourceConfig,
    Tuning,
    start_contradiction,
)
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.masks import HASH, LEAST_SALT, parsed, salted
from lakehouse_cdc.schema.representation import Rules
from lakehouse_cdc.sql.redaction import without_constants

BY_PATTERN = {option.path: option for option in declared_in(CapturedTable)}
PLAIN = {option.path: option for keys in (SourceConfig, Places) for option in declared_in(keys) if option.spark}
OPTIONS = {option.spark.lower(): option for option in (*PLAIN.values(), *BY_PATTERN.values())}
STORAGE = PLAIN["storage"].spark
_REQUIRED = ("url", "tables")
_DEFAULT_IDS = (1_700_000_000, 1_700_009_999)  # of a source without a folder
_FIRST_IDS, _RANGES = 1_710_000_000, 250_000


@dataclass(frozen=True, kw_only=True)
class SourceOptions(Tuning, Places):
    """One source's settings: those of `Tuning` and `Places` as they are given, and what is made of the others.

    `tables` are patterns on `database.table`, `!` excludes; `choice` says which columns are captured, and which masked
    (exclude, include, masks, generated); `mask_salt` is what hashes are made with (option maskSecret: Spark shows no
    value of an option with such a name); `server_ids` an inclusive range of replica ids that nobody else uses; `rules`
    say how columns are carried (zeroDates, typeMap, types). `start_point` is what `start` says. `starts`,
    `schema_changes`, `on_error` and `keys` are by pattern.
    """

    connection: ConnectionOptions
    tables: tuple[str, ...]
    start_point: StartPoint = NOW
    starts: Mapping[str, StartPoint] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)
    mask_salt: str = field(default="", repr=False)
    rules: Rules = field(default_factory=Rules)
    schema_changes: Mapping[str, SchemaChanges] = field(default_factory=dict)
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    server_ids: tuple[int, int] = _DEFAULT_IDS

    @classmethod
    def parse(cls, raw: Mapping[str, str], *, streaming: bool = True) -> SourceOptions:
        """Read Spark's option map. Raises ConfigError that names the option, never its value where it is secret."""
        given, patterns = _checked(raw)
        for path in _REQUIRED + (("schema_folder",) if streaming else ()):
            if not given.get(path):
                raise codes.OPTION_MISSING.error(f"option '{PLAIN[path].spark}' is missing")
        by_pattern = {path: patterns.get(path, {}) for path in BY_PATTERN}
        salt = str(given.get("mask_salt", ""))
        defaults = {path: option.default for path, option in PLAIN.items()}
        read = {**defaults, **given}
        starts = {"source.start": read["start"], **{start_name(p): s for p, s in by_pattern["start"].items()}}
        for where, start in starts.items():
            if what := start_contradiction(start, read["snapshot"]):
                raise codes.SETTINGS_CONTRADICT.error(what, where=where, hint="choose one of the two")
        same = {one.name: read[one.name] for keys in (Tuning, Places) for one in fields(keys)}
        return cls(
            **same,
            start_point=StartPoint.of(read["start"]),
            starts={pattern: StartPoint.of(start) for pattern, start in by_pattern["start"].items()},
            connection=connection_of(read),
            tables=read["tables"],
            choice=Choice(
                by_pattern["exclude"], by_pattern["include"], _masks(by_pattern["masks"], salt), read["generated"]
            ),
            mask_salt=salt,
            rules=Rules(zero_dates=read["zero_dates"], type_map=read["type_map"], types=by_pattern["types"]),
            schema_changes=by_pattern["schema_changes"],
            on_error=by_pattern["on_error"],
            keys=by_pattern["key"],
            server_ids=_server_ids(read["server_ids"], read["schema_folder"]),
        )

    def reach_files(self) -> None:
        """Have this process reach the files that offsets name, and those that tasks write, where they are in a bucket.

        Raises ConfigError.
        """
        places = [place for place in (self.schema_folder, self.files_to) if place is not None and is_url(place)]
        if not places:
            return
        try:
            storage = Storage(**json.loads(self.storage or "{}"))
        except (ValueError, TypeError):
            raise codes.OPTION_INVALID.error(f"option '{STORAGE}' is no JSON of target.storage") from None
        for place in places:
            file_systems.reach(place, storage)

    def start_of(self, table: str) -> StartPoint:
        """Where the table's changes begin; the last pattern that matches decides."""
        return last_match(self.starts, table) or self.start_point

    def start_named(self, table: str) -> str:
        """The key in the file that says so."""
        pattern = last_match({pattern: pattern for pattern in self.starts}, table)
        return "source.start" if pattern is None else start_name(pattern)

    def stops_at_changes(self, table: str) -> bool:
        """Whether the stream stops where the table's schema changes; the last pattern that matches decides."""
        return last_match(self.schema_changes, table) == "stop"

    def on_error_of(self, table: str) -> OnError:
        """What becomes of the table where its rows cannot be followed; the last pattern that matches decides."""
        return last_match(self.on_error, table) or "reread"

    def stops(self, table: str) -> bool:
        """Whether the stream stops where the table cannot be captured, or followed."""
        return self.on_error_of(table) == "stop" or self.stops_at_changes(table)

    def shown(self, statement: str) -> str:
        """What an error says of a statement: its beginning, without constants where any column is masked."""
        return (without_constants(statement) if self.choice.masks else statement)[:200]


def as_option(storage: Storage) -> str:
    """How a bucket is reached, for the option `STORAGE`."""
    return json.dumps(asdict(storage))


def start_name(pattern: str) -> str:
    """The key in the file that says where tables begin that match a pattern."""
    return f"tables.{pattern}.start"


def _checked(raw: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that are given, by the paths of their options; and those by pattern."""
    given, patterns = dict[str, Any](), dict[str, Any]()
    for name, text in raw.items():
        option = OPTIONS.get(name.lower())
        if option is None:
            raise codes.OPTION_UNKNOWN.error(
                f"unknown option '{name}'", hint=nearest(name, (one.spark for one in OPTIONS.values()))
            )
        values = patterns if _is_by_pattern(option) else given
        values[option.path] = _value(option, text)
    return given, patterns


def _is_by_pattern(option: Option) -> bool:
    return BY_PATTERN.get(option.path) == option


def _value(option: Option, text: str) -> Any:
    by_pattern = _is_by_pattern(option)
    kind = MapOf(option.kind, names="table") if by_pattern else option.kind
    try:
        return kind.of_text(text)
    except Invalid as error:
        problem = error.first
        if by_pattern:
            what = f"option '{option.spark}' is not a JSON object of table: {option.kind.title}"
            raise codes.OPTION_INVALID.error(what, where=".".join(map(str, problem.path)), hint=problem.what) from None
        shown = "" if option.secret else f" '{text}'"
        raise codes.OPTION_INVALID.error(f"option '{option.spark}' cannot be{shown}", hint=problem.what) from None


def _server_ids(text: str | None, folder: str) -> tuple[int, int]:
    """By default ten thousand for each folder, most likely its own: pipelines that read one server differ in that."""
    if text is not None:
        return _id_range(text)
    if not folder:
        return _DEFAULT_IDS
    number = int.from_bytes(hashlib.sha256(folder.encode()).digest()[:8], "big") % _RANGES
    first = _FIRST_IDS + number * 10_000
    return first, first + 9_999


def _id_range(text: str) -> tuple[int, int]:
    low, high = map(int, text.split("-"))
    if not 0 < low < high < 2**32:
        raise codes.SERVER_ID_INVALID.error(
            f"option 'serverIds' is '{text}'", hint="at least two ids between 1 and 4294967295"
        )
    return low, high


def _masks(masks: Mapping[str, Mapping[str, Any]], salt: str) -> dict[str, dict[str, str]]:
    columns_of = {table: {column: parsed(mask) for column, mask in columns.items()} for table, columns in masks.items()}
    if any(HASH in columns.values() for columns in columns_of.values()) and len(salt) < LEAST_SALT:
        what = "a column is masked by hash, and there is no salt" if not salt else "the salt of masks is too short"
        hint = f"source.mask_salt, {LEAST_SALT} random characters or more, such as openssl rand -hex 32 gives"
        raise codes.MASK_SALT_INVALID.error(what, where="source.mask_salt", hint=hint)
    return {
        table: {name: salted(mask, salt) for name, mask in columns.items()} for table, columns in columns_of.items()
    }


def replica_ids(ids: tuple[int, int], begin: int | None = None) -> Iterator[int]:
    """Ids of the range but for its first, which is the planner's, for ever: `begin`, if it is given, then any.

    A server ends the older of two readers with one id. That one continues with another, or both would end each other in
    turn. Which it is decides about no row.
    """
    first, last = ids
    if begin is not None:
        yield begin
    while True:
        yield random.randint(first + 1, last)
