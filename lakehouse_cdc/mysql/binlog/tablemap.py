"""Table maps: the shape of a table as the binlog states it before the rows, and its check against the known schema.

Row images are read by the schema that the source knows, so every table map of a captured table is compared with it
before a row under it is believed: the number of columns, each column's type with its length, precision and fraction,
nullability, and as much of the rest as the server writes. Under binlog_row_metadata=FULL that is everything: names,
signs, character sets, labels, and the primary key. MINIMAL (MySQL's default) has signs and character sets, 5.7 and
MariaDB's NO_LOG have neither. What is not written needs no belief: the schema was right at a position, and a shape
changes only by DDL, which is in the log and is followed. So FULL is a second proof, and finds what was done behind
the log's back (DDL under sql_log_bin = 0) also where no type shows it. That a column is COMPRESSED is no part of its
schema: it says how values are stored, and each table map says it for its rows.

Source: MySQL source documentation, "Table_map_event"; that YEAR counts as numeric in the list of signs, and that the
hidden columns of functional indexes are left out, was seen on 8.0.31 and 9.7.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.images import layout
from lakehouse_cdc.images.layout import BinlogType
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.model.way_out import read_again
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.schema.charsets import charset_of, decode
from lakehouse_cdc.schema.table import Column, TableSchema

_NO_METADATA = (layout.TINY, layout.SHORT, layout.LONG, layout.LONGLONG, layout.INT24, layout.DATE, layout.YEAR)
_ONE_BYTE = (
    *(layout.FLOAT, layout.DOUBLE, layout.TIMESTAMP2, layout.DATETIME2, layout.TIME2),
    *(layout.VECTOR, layout.JSON, layout.BLOB, layout.BLOB_COMPRESSED, layout.GEOMETRY),
)
_TWO_BYTES = (
    layout.VARCHAR,
    layout.VARCHAR_COMPRESSED,
    layout.BIT,
    layout.NEWDECIMAL,
    layout.VAR_STRING,
    layout.STRING,
)
_WHOLE = (layout.TINY, layout.SHORT, layout.INT24, layout.LONG, layout.LONGLONG)
_NUMERIC = (*_WHOLE, layout.NEWDECIMAL, layout.FLOAT, layout.DOUBLE, layout.YEAR)
_CHARACTER = (  # MySQL 9 counts its VECTOR, too (seen on 9.7), whose character set is binary
    *(layout.STRING, layout.VAR_STRING, layout.VARCHAR, layout.BLOB, layout.VECTOR),
    *(layout.VARCHAR_COMPRESSED, layout.BLOB_COMPRESSED),
)
_HASH = re.compile(r"DB_ROW_HASH_\d+")
# fields of the optional metadata
_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES = 1, 2, 3, 4
_SET_LABELS, _ENUM_LABELS, _SIMPLE_KEY, _PREFIX_KEY = 5, 6, 8, 9


@dataclass(frozen=True)
class TableMap:
    """One table map. The tuples have one entry a column, in the table's order.

    `types` are the type bytes with each column's metadata as they are in the log. `unsigned` and `collations` are
    None where the column is not a number or a text (63 is binary), or the server does not say. `names` is None without
    FULL metadata; then `labels` (of an ENUM or SET, in the column's character set) and `key` (the primary key's columns
    as (index, length of the prefix or 0)) are empty, too. `bare_doubles`: the server that wrote it prints whole doubles
    in JSON without a fraction.
    """

    name: str  # database.table
    types: tuple[BinlogType, ...]
    nullable: tuple[bool, ...]
    unsigned: tuple[bool | None, ...]
    collations: tuple[int | None, ...]
    names: tuple[str, ...] | None
    key: tuple[tuple[int, int], ...]
    labels: tuple[tuple[bytes, ...], ...]
    bare_doubles: bool = False

    @cached_property
    def compressed(self) -> tuple[int, ...]:
        """The indexes of MariaDB's COMPRESSED columns."""
        return tuple(i for i, kind in enumerate(self.types) if layout.plain_type(kind) != kind)


def parse(body: bytes, where: str, *, mariadb: bool = False, bare_doubles: bool = False) -> TableMap:
    """Read a table map's body, from after its six bytes of table id to before its checksum.

    `mariadb`: that server counts columns of geometry among those that have a character set (seen on 10.11 and 11.8).

    Raises DefiniteError for a type whose metadata is not known and for bytes that do not add up.
    """
    data = Cursor(body, where)
    data.skip(2)  # flags
    database, table = data.counted_text(), data.counted_text()
    count = data.length()
    codes = data.take(count)
    meta = Cursor(data.take(data.length()), where)
    types = tuple((code, _metadata(code, meta, where)) for code in codes)
    meta.end()
    bits = data.take((count + 7) // 8)
    fields: dict[int, Cursor] = {}
    while data.left:
        field = data.byte()
        fields[field] = Cursor(data.take(data.length()), where)
    character = [i for i, kind in enumerate(types) if _is_character(kind) or (mariadb and kind[0] == layout.GEOMETRY)]
    return TableMap(
        name=join(database, table),
        types=types,
        nullable=tuple(bool(bits[i // 8] >> i % 8 & 1) for i in range(count)),
        unsigned=_signs(fields.get(_SIGNS), codes),
        collations=_charsets(fields, character, count),
        names=_names(fields[_NAMES], count) if _NAMES in fields else None,
        key=_key(fields, count),
        labels=_labels(fields, types),
        bare_doubles=bare_doubles,
    )


def _metadata(code: int, meta: Cursor, where: str) -> bytes:
    if code in _NO_METADATA:
        return b""
    if code in _ONE_BYTE:
        return meta.take(1)
    if code in _TWO_BYTES:
        return meta.take(2)
    raise codes.BINLOG_EVENT_UNKNOWN.error(f"a table map holds a column of the unknown type {code}", where=where)


def _is_character(kind: BinlogType) -> bool:
    """ENUM and SET are logged as STRING, too, and have a list of character sets of their own."""
    code, metadata = kind
    return code in _CHARACTER and not (code == layout.STRING and metadata[0] in (layout.ENUM, layout.SET))


def _signs(field: Cursor | None, codes: bytes) -> tuple[bool | None, ...]:
    """One bit for each numeric column, the highest bit of a byte first; set where unsigned."""
    signs: list[bool | None] = [None] * len(codes)
    if field is not None:
        numeric = [i for i, code in enumerate(codes) if code in _NUMERIC]
        bits = field.take((len(numeric) + 7) // 8)
        for n, i in enumerate(numeric):
            signs[i] = bool(bits[n // 8] & 0x80 >> n % 8)
    return tuple(signs)


def _charsets(fields: dict[int, Cursor], character: list[int], count: int) -> tuple[int | None, ...]:
    """Either a default and its exceptions, or one collation for each character column."""
    collations: dict[int, int] = {}
    if _CHARSETS in fields:
        collations = {i: fields[_CHARSETS].length() for i in character}
    elif _DEFAULT_CHARSET in fields:
        field = fields[_DEFAULT_CHARSET]
        collations = dict.fromkeys(character, field.length())
        while field.left:
            place = field.index(len(character))
            collations[character[place]] = field.length()
    return tuple(collations.get(i) for i in range(count))


def _names(field: Cursor, count: int) -> tuple[str, ...]:
    names = tuple(field.take(field.length()).decode("utf-8", "replace") for _ in range(count))
    field.end()
    return names


def _labels(fields: dict[int, Cursor], types: tuple[BinlogType, ...]) -> tuple[tuple[bytes, ...], ...]:
    """For each ENUM, and in a list of its own each SET: how many labels, and each with its length."""
    labels: list[tuple[bytes, ...]] = [()] * len(types)
    for field, real in ((_SET_LABELS, layout.SET), (_ENUM_LABELS, layout.ENUM)):
        for i, (code, metadata) in enumerate(types):
            if field in fields and code == layout.STRING and metadata[0] == real:
                data = fields[field]
                labels[i] = tuple(data.take(data.length()) for _ in range(data.length()))
    return tuple(labels)


def _key(fields: dict[int, Cursor], count: int) -> tuple[tuple[int, int], ...]:
    key: list[tuple[int, int]] = []
    if _SIMPLE_KEY in fields:
        while fields[_SIMPLE_KEY].left:
            key.append((fields[_SIMPLE_KEY].index(count), 0))
    elif _PREFIX_KEY in fields:
        while fields[_PREFIX_KEY].left:
            key.append((fields[_PREFIX_KEY].index(count), fields[_PREFIX_KEY].length()))
    return tuple(key)


_UNSHOWN = (
    "SET GLOBAL binlog_row_metadata = FULL where the server has it, which shows whether it does; or exclude the column"
)


def check(table_map: TableMap, schema: TableSchema, where: str) -> None:
    """Raise DefiniteError unless `table_map` is what `schema` says; see the module's argument for what is compared."""
    if table_map.names is None:
        _require_plain_labels(schema, where)
    else:
        _require_shown_labels(table_map, schema, where)
    logged = with_hidden_columns(schema, table_map)
    difference = _differences(table_map, logged) or _type_difference(table_map, logged)
    if difference:
        raise codes.TABLE_CHANGED.error(
            f"table {schema.name} changed: {difference}",
            where=where,
            table=schema.name,
            hint=f"have it read again, as it is now: {read_again(schema.name)}",
        )


def with_hidden_columns(schema: TableSchema, table_map: TableMap) -> TableSchema:
    """The schema with the columns that MariaDB logs after those of the catalog; none of them is captured.

    They are the period of a system-versioned table that declares no columns for it, and then the hashes of UNIQUE keys
    that are declared USING HASH, or are longer than an index may be (seen on 10.11 and 11.8). With FULL metadata they
    have names; without, they are known from the schema, which says whether there may be some.
    """
    schema = _with_period(schema, table_map)
    first = len(schema.columns)
    kinds = table_map.types[first:]
    if not kinds or (table_map.names is None and not schema.hidden_hashes):
        return schema
    names = (
        table_map.names[first:] if table_map.names is not None else [f"DB_ROW_HASH_{n}" for n, _ in enumerate(kinds, 1)]
    )
    if not all(kind[0] == layout.LONGLONG and _HASH.fullmatch(n) for kind, n in zip(kinds, names, strict=True)):
        return schema
    added = (Column(name, "bigint", unsigned=True, captured=False) for name in names)
    return replace(schema, columns=(*schema.columns, *added))


def _with_period(schema: TableSchema, table_map: TableMap) -> TableSchema:
    """The schema with the hidden columns of its period, if it has such and the table map agrees."""
    first, period = len(schema.columns), schema.versioning
    if period is None or any(column.name == period.end for column in schema.columns):
        return schema
    names, kinds = (period.start, period.end), table_map.types[first : first + 2]
    if kinds != (layout.END_TYPE, layout.END_TYPE) or (
        table_map.names is not None and table_map.names[first : first + 2] != names
    ):
        return schema
    added = (Column(name, "timestamp", nullable=False, fraction=6, captured=False) for name in names)
    return replace(schema, columns=(*schema.columns, *added))


def _require_plain_labels(schema: TableSchema, where: str) -> None:
    """INFORMATION_SCHEMA has `?` for a character beyond utf8mb3; a table map with labels would show it."""
    for column in schema.captured:
        if any("?" in label for label in column.values):
            raise codes.LABEL_UNREADABLE.error(
                f"column {column.name} of {schema.name} has a label with a `?`, which may stand for another character",
                where=where,
                table=schema.name,
                hint=_UNSHOWN,
            )


def _require_shown_labels(table_map: TableMap, schema: TableSchema, where: str) -> None:
    """With labels in the table map, one that INFORMATION_SCHEMA does not show is known for what it is."""
    for labels, column in zip(table_map.labels, schema.columns, strict=False):
        shown = any("?" in label for label in column.values)
        if column.captured and shown and (texts := _texts(labels, column)) != column.values:
            listed = ", ".join(texts)[:100]
            raise codes.LABEL_UNREADABLE.error(
                f"column {column.name} of {schema.name} has labels that the server's catalog cannot show: {listed}",
                where=where,
                table=schema.name,
                hint="exclude the column, or give it labels without such characters (ALTER TABLE)",
            )


def _texts(labels: tuple[bytes, ...], column: Column) -> tuple[str, ...]:
    return tuple(decode(column.charset or "utf8mb4", label) for label in labels)


def _type_difference(table_map: TableMap, schema: TableSchema) -> str:
    try:
        layout.require_types(schema, [layout.plain_type(kind) for kind in table_map.types])
    except DefiniteError as difference:
        return difference.what
    return ""


def _differences(table_map: TableMap, schema: TableSchema) -> str:
    """In words, what the binlog has that the schema has not; '' if all but the types agrees."""
    known = tuple(c.name for c in schema.columns)
    if table_map.names not in (None, known):
        only = sorted(set(table_map.names or ()) ^ set(known)) or ["their order"]
        return f"{len(table_map.types)} columns in the binlog, {len(known)} known; they differ in {', '.join(only)}"
    if len(table_map.types) != len(known):
        return f"{len(table_map.types)} columns in the binlog, {len(known)} known"
    for i, column in enumerate(schema.columns):
        difference = _difference(table_map, i, column) if column.captured else ""
        if difference:
            return f"column {column.name}, known as {column.declared}, {difference} in the binlog"
    if table_map.names is None:
        return ""
    key = tuple(known[i] for i, _ in table_map.key)
    key = schema.versioning.current_key(key) if schema.versioning else key
    wanted = schema.primary_key
    if not wanted:
        return ""  # of a table without one, servers log the first unique index over columns that are not null
    return "" if key == wanted else f"primary key ({', '.join(key)}) in the binlog, ({', '.join(wanted)}) known"


def _difference(table_map: TableMap, i: int, column: Column) -> str:
    """How column `i` of the table map differs from `column`, its type aside; '' if it does not."""
    kind = table_map.types[i]
    if kind[0] != layout.YEAR and table_map.unsigned[i] not in (None, column.unsigned):
        return f"is {'unsigned' if table_map.unsigned[i] else 'signed'}"
    if table_map.nullable[i] != column.nullable:
        return f"is {'nullable' if table_map.nullable[i] else 'NOT NULL'}"
    if column.values and table_map.names is not None:
        labels = _texts(table_map.labels[i], column)
        return "" if labels == column.values else f"has the labels {', '.join(labels)[:100]}"
    if (collation := table_map.collations[i]) is not None:
        charset = charset_of(collation) or "another"
        known = {"utf8": "utf8mb3", None: "binary"}.get(column.charset, column.charset)
        return "" if charset == known else f"has the character set {charset} instead of {known}"
    return ""
