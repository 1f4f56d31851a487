"""One table with a column of every type that a server knows, rows of edge values, and what the server says of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from uuid import UUID

import pymysql

from tests.support.servers import connected
from tests.support.source.stage import Stage

Say = Callable[[Any], str]  # an image's value, as the server's expression shows it


@dataclass(frozen=True)
class Typed:
    """A column: its declaration, values in SQL, an expression by which the server shows `{}`, and the same of ours."""

    name: str
    declared: str
    values: tuple[str, ...]
    shown: str = "CAST({} AS CHAR)"
    say: Say = str


def _text(value: str) -> str:
    """A literal that means the same in a session of any character set."""
    return f"_utf8mb4 x'{value.encode().hex()}'"


def _hex(value: Any) -> str:
    return (value.encode() if isinstance(value, str) else bytes(value)).hex().upper()


def _moment(value: datetime) -> str:
    utc = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(" ", "microseconds")


def _vector(value: Any) -> str:
    return struct.pack(f"<{len(value)}f", *value).hex().upper()


_UTF8 = "HEX(CONVERT({} USING utf8mb4))"
AS_UTF8 = (_UTF8, _hex)
_LABEL = "HEX(CONVERT(CAST({} AS CHAR) USING utf8mb4))"
_MICROS = "DATE_FORMAT({}, '%Y-%m-%d %H:%i:%s.%f')"
_WHOLE = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
_DECIMALS = [(1, 0), (9, 9), (10, 2), (18, 9), (38, 0), (38, 30), (39, 2), (65, 0), (65, 30)]
_SHAPES = ("POINT(1 2)", "LINESTRING(0 0, 1 1)", "POLYGON((0 0, 1 0, 1 1, 0 0))", "MULTIPOINT(1 1, 2 2)")
_DOCUMENTS = (
    '{"b": 1, "a": [true, false, null], "": {}}', "[]", "null", '"text \\u00e9\\ud83d\\ude00"', "1.5e300", "0.1",
    "18446744073709551615", "-9223372036854775808", '{"long": "' + "x" * 70_000 + '"}', '{"aa": 1, "b": 2}',
)  # fmt: skip
_SPANS = ("'-838:59:59'", "'838:59:59'", "'0:0:0'", "'-0:0:0.5'", "'12:34:56.789012'", "'-0:0:1.000001'")
_MOMENTS = ("'1000-01-01'", "'9999-12-31 23:59:59'", "'2024-02-29 12:34:56.789012'", "'0001-01-01 00:00:00.5'")
_INSTANTS = ("'1970-01-02 00:00:01'", "'2038-01-18 03:14:07'", "'2024-03-31 02:30:00.123456'", "'2024-10-27 02:30:00'")
# of all the world's letters, those that a character set has
_LETTERS = "Az~é§ßяЖשعกあ日本語한Ω中😀"


def numbers() -> list[Typed]:
    """Whole numbers, decimals, floating point, bits."""
    found = []
    for kind, bits in _WHOLE.items():
        edges = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 100]
        found.append(Typed(kind, kind, tuple(map(str, edges))))
        edges = [0, 1, 2 ** (bits - 1), 2**bits - 1, 2 ** (bits - 1) - 1]
        found.append(Typed(f"{kind}_U", f"{kind} UNSIGNED", tuple(map(str, edges))))
    found.append(Typed("zerofill", "INT(8) UNSIGNED ZEROFILL", ("0", "42", "4294967295"), "CAST({} + 0 AS CHAR)"))
    found.append(Typed("bool", "BOOL", ("0", "1", "-128")))
    for precision, scale in _DECIMALS:
        most = "9" * (precision - scale) + ("." + "9" * scale if scale else "")
        values = ("0", "1" if precision > scale else "0.1", most, f"-{most}")
        found.append(Typed(f"d{precision}_{scale}", f"DECIMAL({precision},{scale})", values, say=_decimal(scale)))
    singles = ("0", "0.1", "-3.402823466e38", "1.17549435e-38", "16777217", "5592405.5", "1e-45")
    found.append(Typed("single", "FLOAT", singles, "{} + 0e0", lambda v: repr(float(v))))
    doubles = ("0", "0.1", "-1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993", "1e15", "1e22")
    found.append(Typed("twofold", "DOUBLE", doubles, "{} + 0e0", lambda v: repr(float(v))))
    for bits in (1, 2, 8, 9, 33, 63, 64):
        edges = [0, 1, 2**bits - 1, 2 ** (bits - 1)]
        found.append(
            Typed(f"bit{bits}", f"BIT({bits})", tuple(map(str, edges)), "CAST({} + 0 AS CHAR)", lambda v: str(int(v)))
        )
    return found


def _decimal(scale: int) -> Say:
    return lambda v: v if isinstance(v, str) else f"{Decimal(v):.{scale}f}"


def times() -> list[Typed]:
    """Dates and times that a calendar has."""
    days = ("'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1970-01-01'", "'0001-01-01'")
    found = [
        Typed("day", "DATE", days, say=date.isoformat),
        Typed("year", "YEAR", ("0", "1901", "2155", "1999"), "CAST({} + 0 AS CHAR)"),
    ]
    for digits in range(7):
        found += [
            Typed(f"time{digits}", f"TIME({digits})", _SPANS),
            Typed(f"datetime{digits}", f"DATETIME({digits})", _MOMENTS, _MICROS, _moment),
            Typed(f"timestamp{digits}", f"TIMESTAMP({digits}) NULL", _INSTANTS, _MICROS, _moment),
        ]
    return found


def charsets(connection: pymysql.Connection[Any]) -> list[str]:
    """The character sets that this server has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CHARACTER_SET_NAME FROM INFORMATION_SCHEMA.CHARACTER_SETS")
        return sorted({str(row[0]) for row in cursor.fetchall()} - {"binary", "filename"})


def texts(connection: pymysql.Connection[Any]) -> list[Typed]:
    """A text column for each character set that this server has, and the kinds of text."""
    with connection.cursor() as cursor:
        found = []
        for charset in charsets(connection):
            asked = ", ".join(
                f"HEX(CONVERT(CONVERT({_text(c)} USING {charset}) USING utf8mb4)) = '{_hex(c)}'" for c in _LETTERS
            )
            cursor.execute(f"SELECT {asked}")
            row = cursor.fetchone()
            letters = "".join(c for c, has in zip(_LETTERS, row or (), strict=True) if has)
            values = tuple(map(_text, (letters, "", "a ", "x" * 30)))
            found.append(Typed(f"cs_{charset}", f"VARCHAR(40) CHARACTER SET {charset}", values, _UTF8, _hex))
    long = (_text("é" * 300), _text(""), _text("日本語" * 30))
    for kind in ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"):
        values = (_text("é" * 100), *long[1:]) if kind == "TINYTEXT" else long
        values = tuple(v for v in values if kind != "TINYTEXT" or v != long[2])
        found.append(Typed(kind, f"{kind} CHARACTER SET utf8mb4", values, _UTF8, _hex))
    found.append(Typed("char", "CHAR(60) CHARACTER SET utf8mb4", (_text("a  "), _text("é" * 60)), _UTF8, _hex))
    return found


def bytes_and_labels() -> list[Typed]:
    """Binary types, ENUM, SET, geometry."""
    raw = ("x''", "x'00'", "x'00ff8020'", "x'2020'")
    found = [Typed(kind, kind, raw, "HEX({})", _hex) for kind in ("BINARY(4)", "VARBINARY(300)")]
    long = (*raw, "REPEAT(x'fe', 200)")
    found += [Typed(kind, kind, long, "HEX({})", _hex) for kind in ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")]
    labels = ("'a'", "'it''s'", _text("öß"), _text("日本"))
    declared = "'a', 'it''s', 'öß', '日本', ''"
    found.append(Typed("enum", f"ENUM({declared}) CHARACTER SET utf8mb4", (*labels, "''"), _LABEL, _hex))
    many = ", ".join(f"'l{n}'" for n in range(300))
    found.append(Typed("enum300", f"ENUM({many})", ("'l0'", "'l255'", "'l299'"), _LABEL, _hex))
    sets = ", ".join(f"'s{n}'" for n in range(64))
    found.append(Typed("set", f"SET({sets})", ("''", "'s0'", "'s63,s0'", "18446744073709551615"), _LABEL, _hex))
    shapes = tuple(f"ST_GeomFromText('{shape}')" for shape in _SHAPES)
    found.append(Typed("geometry", "GEOMETRY", shapes, "HEX({})", _hex))
    found.append(Typed("point", "POINT", shapes[:1], "HEX({})", _hex))
    return found


def addresses() -> list[Typed]:
    """What MariaDB alone has; random ones, since how one is printed depends on all of its bytes."""
    rng = random.Random(7)
    some = [bytes(rng.choice((0, 0, 0, 1, 16, 255)) for _ in range(16)) for _ in range(20)]
    some += [bytes(10) + b"\xff\xff\1\2\3\4", bytes(12) + b"\1\2\3\4", bytes(16), b"\xff" * 16, bytes(15) + b"\1"]
    six = tuple(f"'{IPv6Address(value)}'" for value in some)
    four = tuple(f"'{IPv4Address(value[:4])}'" for value in some)
    known = [UUID(bytes=value, version=1 + i % 5) for i, value in enumerate(some)]
    known += [UUID(int=0), UUID("01890a5d-ac96-774b-bcce-b302099a8057")]
    uuids = tuple(f"'{value}'" for value in known)
    return [Typed("uuid", "UUID", uuids), Typed("inet6", "INET6", six), Typed("inet4", "INET4", four)]


def compressed() -> list[Typed]:
    """MariaDB's COMPRESSED columns: values that become smaller, those that do not, and those that are too short.

    None is a VARCHAR of utf16: MariaDB 10.11.5 damages these where it copies one, as in INSERT ... SELECT.
    """
    noise = random.Random(3).randbytes(70_000).hex()
    repeated = ("''", "'short'", "REPEAT('x', 100)", "REPEAT('xyz', 20)")
    wide = (*map(_text, ("é😀" * 30, "日本" * 50)), *repeated)
    kinds = {
        "VARCHAR(100) COMPRESSED CHARACTER SET latin1": repeated,
        "VARCHAR(255) COMPRESSED CHARACTER SET latin1": (*repeated, "REPEAT('x', 255)", _text("é" * 255)),
        "VARCHAR(254) COMPRESSED CHARACTER SET latin1": (*repeated, "REPEAT('x', 254)", _text("éa" * 127)),
        "VARCHAR(256) COMPRESSED CHARACTER SET latin1": ("REPEAT('x', 256)", "''"),
        "VARCHAR(200) COMPRESSED CHARACTER SET utf8mb4": wide,
        "TEXT COMPRESSED CHARACTER SET utf16": wide,
        "TINYTEXT COMPRESSED CHARACTER SET latin1": (*repeated, "REPEAT('x', 255)"),
        "TEXT COMPRESSED CHARACTER SET utf8mb4": (*wide, "REPEAT('x', 65535)"),
        "TEXT COMPRESSED CHARACTER SET utf32": wide,
        "MEDIUMTEXT COMPRESSED CHARACTER SET utf8mb4": (*wide, _text("é😀" * 12_000), "REPEAT('x', 70000)"),
        "JSON COMPRESSED": (_text('{"a": "' + "é" * 200 + '"}'), "'[]'"),
    }
    found = [Typed(f"packed{i}", kind, values, _UTF8, _hex) for i, (kind, values) in enumerate(kinds.items())]
    raw = ("x''", "x'00'", "REPEAT(x'00', 100)", "REPEAT(x'ff00', 50)", f"x'{noise[:200]}'", f"x'{noise[:510]}'")
    long = (*raw, f"x'{noise}'", "REPEAT(x'fe', 70000)")
    binary = {
        "VARBINARY(255) COMPRESSED": raw,
        "VARBINARY(3000) COMPRESSED": (*raw, f"x'{noise[:6000]}'"),
        "TINYBLOB COMPRESSED": raw[:4],
        "BLOB COMPRESSED": (*raw, f"x'{noise[: 2 * 65_534]}'"),
        "MEDIUMBLOB COMPRESSED": long,
        "LONGBLOB COMPRESSED": long,
    }
    return found + [
        Typed(f"packed_raw{i}", kind, values, "HEX({})", _hex) for i, (kind, values) in enumerate(binary.items())
    ]


def documents(is_mariadb: bool) -> list[Typed]:
    """JSON: a binary document in MySQL, a checked text in MariaDB."""
    if is_mariadb:
        return [Typed("json", "JSON", tuple(map(_text, _DOCUMENTS)), _UTF8, _hex), *addresses(), *compressed()]
    opaque = ("CAST(CAST('2024-02-29 12:00:00.5' AS DATETIME(6)) AS JSON)", "CAST(CAST(1.10 AS DECIMAL(5,2)) AS JSON)")
    values = tuple(f"CAST({_text(d)} AS JSON)" for d in _DOCUMENTS)
    return [Typed("json", "JSON", values + opaque, "HEX(CONVERT(CAST({} AS CHAR) USING utf8mb4))", _hex)]


def every(connection: pymysql.Connection[Any]) -> list[Typed]:
    """The columns of all types that this server knows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        [(version,)] = cursor.fetchall()
    is_mariadb = "MariaDB" in version
    found = [*numbers(), *times(), *texts(connection), *bytes_and_labels(), *documents(is_mariadb)]
    number = tuple(map(int, version.split(".")[:2]))
    if is_mariadb and number >= (11, 7):
        long = f"VEC_FromText('[{', '.join(map(str, range(100)))}]')"
        found.append(Typed("vector", "VECTOR(3)", ("VEC_FromText('[1, -2.5, 0.1]')",), "HEX({})", _vector))
        found.append(Typed("vector100", "VECTOR(100)", (long,), "HEX({})", _vector))
    elif not is_mariadb and number >= (9, 0):
        vectors = ("STRING_TO_VECTOR('[1, -2.5, 3e38]')", "STRING_TO_VECTOR('[0]')")
        found.append(Typed("vector", "VECTOR(3)", vectors, "HEX({})", _vector))
    return found


def ddl(name: str, columns: Sequence[Typed]) -> str:
    """The table: a counter for updates, every column nullable, and a generated one."""
    body = ", ".join(f"`{c.name}` {c.declared}" for c in columns)
    return f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, {body}, twice INT AS (2 * id) STORED)"


def rows(columns: Sequence[Typed], seed: int) -> list[str]:
    """VALUES lists: each column's edge values at least once, some in random company, and a row of NULLs."""
    rng = random.Random(seed)
    count = max(len(c.values) for c in columns)
    found = []
    for i in range(2 * count):
        values = [c.values[i % len(c.values)] if i < count else rng.choice(c.values) for c in columns]
        found.append(f"({i}, 0, {', '.join(values)})")
    return [*found, f"({2 * count}, 0, {', '.join(['NULL'] * len(columns))})"]


def _copy(column: Typed) -> str:
    """The value in INSERT ... SELECT; MariaDB 10.11 at times refuses to copy a COMPRESSED VARCHAR (1265)."""
    is_packed = column.declared.startswith("VARCHAR") and " COMPRESSED" in column.declared
    return f"CONCAT(`{column.name}`)" if is_packed else f"`{column.name}`"


_FAR = 1000  # ids of the rows that come through the binlog


def through_the_binlog(stage: Stage, columns: list[Typed]) -> None:
    """Every row once more, inserted and updated by a session of another time zone and character set."""
    names = ", ".join(f"`{c.name}`" for c in columns)
    copies = ", ".join(_copy(c) for c in columns)
    with closing(connected(stage.server, charset="latin1", database=stage.database)) as other:
        cursor = other.cursor()
        cursor.execute("SET time_zone = '+05:30'")
        cursor.execute(f"INSERT INTO t (id, n, {names}) SELECT id + {_FAR}, 1, {copies} FROM t")
        cursor.execute("UPDATE t SET n = n + 1")
