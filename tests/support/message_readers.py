"""What a reader makes of the messages: plain parsers, which share nothing with what wrote them."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.type_registry import SPATIAL
from tests.support.avro_messages import adjusted_names, as_json

_EPOCH = datetime(1970, 1, 1)
_EXACT = Context(prec=80)
_BINARY = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")


@dataclass(frozen=True)
class Read:
    """One message as its format says: `op` as bronze has it, "-U" for the first half of an update."""

    op: str
    key: Mapping[str, Any] | None
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


def parsed(data: bytes) -> Any:
    return json.loads(data, parse_float=Decimal)


def debezium(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    document = parsed(value)
    held = document.get("payload", document)
    identity = None if key is None else parsed(key)
    identity = identity.get("payload", identity) if identity and "schema" in identity else identity

    def row(image: Any) -> Any:
        return _row(schema, image, _of_debezium)

    return Read(held["op"], row(identity), row(held["before"]), row(held["after"]))


def of_registry(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    """Debezium's Avro, by the schemas that `tests.support.avro_messages` holds."""
    names = {adjusted: name for name, adjusted in adjusted_names(schema).items()}
    document, identity = as_json(value), None if key is None else as_json(key)
    for side in ("before", "after"):
        document[side] = document[side] and {names[name]: held for name, held in document[side].items()}
    identity = identity and {names[name]: held for name, held in identity.items()}
    said = None if identity is None else json.dumps(identity).encode()
    return debezium(schema, said, json.dumps(document).encode())


def flat(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    held = parsed(value)
    op = held.pop("__op")
    for own in ("__table", "__commit_ts", "__seq"):
        del held[own]
    image = _row(schema, held, _of_iso)
    before, after = (image, None) if op == "d" else (None, image)
    return Read(op, _row(schema, None if key is None else parsed(key), _of_iso), before, after)


def changelog(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    held = parsed(value)
    image, identity = _row(schema, held["data"], _of_iso), _row(schema, None if key is None else parsed(key), _of_iso)
    gone = held["op"].startswith("-")
    op = {"+I": "c", "+U": "u", "-D": "d"}.get(held["op"], held["op"])
    return Read(op, identity, image if gone else None, None if gone else image)


def canal(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    held = parsed(value)
    [data] = held["data"]
    [old] = held["old"] or [None]
    op = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}[held["type"]]
    return _with_old(op, schema, None if key is None else parsed(key), data, old, _of_text)


def maxwell(schema: TableSchema, key: bytes | None, value: bytes) -> Read:
    held = parsed(value)
    identity = None
    if key is not None:
        identity = {n.removeprefix("pk."): v for n, v in parsed(key).items() if n not in ("database", "table")}
    op = {"insert": "c", "update": "u", "delete": "d"}[held["type"]]
    return _with_old(op, schema, identity, held["data"], held.get("old"), _of_maxwell)


READERS = {
    "debezium-json": debezium, "debezium-avro": of_registry, "flat": flat, "changelog-json": changelog,
    "canal-json": canal, "maxwell": maxwell,
}  # fmt: skip
Reads = Callable[[Column, Any], Any]


def _with_old(op: str, schema: TableSchema, key: Any, data: Any, old: Any, reads: Reads) -> Read:
    image = _row(schema, data, reads)
    identity = _row(schema, key, reads)
    if op == "d":
        return Read(op, identity, image, None)
    before = None if old is None else {**image, **_row(schema, old, reads)}
    return Read(op, identity, before, image)


def _row(schema: TableSchema, image: Any, reads: Reads) -> Any:
    if image is None:
        return None
    columns = {column.name: column for column in schema.columns}

    def value_of(column: Column, value: Any) -> Any:
        as_text = column.carried == "text" or column.mask
        return value if value is None or as_text else reads(column, value)

    return {name: value_of(columns[name], value) for name, value in image.items()}


def _of_debezium(column: Column, value: Any) -> Any:
    kind = column.type
    if kind == "decimal" or (kind == "bigint" and column.unsigned and isinstance(value, str)):
        unscaled = int.from_bytes(base64.b64decode(value), "big", signed=True)
        scale = column.scale or 0
        number = Decimal(unscaled).scaleb(-scale, _EXACT)
        return format(number, f".{scale}f") if (column.precision or 10) > 38 and kind == "decimal" else number
    if kind == "bit" and column.length != 1:
        return int.from_bytes(base64.b64decode(value), "little")
    if kind in SPATIAL:
        wkb = base64.b64decode(value["wkb"])
        if kind == "point":
            assert struct.unpack("<dd", wkb[5:]) == (float(value["x"]), float(value["y"]))
        return struct.pack("<I", (value["srid"] or 0) % 2**32) + wkb  # in Avro it is a number with a sign
    if kind in _BINARY:
        return base64.b64decode(value)
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if kind == "datetime":
        return _EPOCH + (timedelta(milliseconds=value) if column.fraction <= 3 else timedelta(microseconds=value))
    if kind == "timestamp":
        return _moment(value)
    if kind == "time":
        return _time(value, column.fraction)
    return _number(column, value)


def _of_iso(column: Column, value: Any) -> Any:
    if column.type in (*_BINARY, *SPATIAL):
        return base64.b64decode(value)
    if column.type == "decimal":
        text = str(value) if isinstance(value, str) else format(Decimal(value), "f")
        return text if (column.precision or 10) > 38 else Decimal(text)
    if column.type in (*_INTEGERS, "bit") and isinstance(value, str):
        return int(value)
    return _dates_and_times(column, value)


def _of_maxwell(column: Column, value: Any) -> Any:
    if column.type == "set":
        return ",".join(value)
    return _in_utc(column, _of_iso(column, value))


def _of_text(column: Column, value: str) -> Any:
    assert isinstance(value, str)
    if column.type in (*_BINARY, *SPATIAL):
        return value.encode("latin-1")
    if column.type in (*_INTEGERS, "bit"):
        return bool(int(value)) if column.type == "bit" and column.length == 1 else int(value)
    if column.type == "decimal":
        return value if (column.precision or 10) > 38 else Decimal(value)
    if column.type in ("float", "double"):
        return _number(column, Decimal(value))
    if column.type == "vector":
        return [_single(one) for one in json.loads(value)]
    return _in_utc(column, _dates_and_times(column, value))


def _in_utc(column: Column, value: Any) -> Any:
    """Canal and Maxwell write a TIMESTAMP as the server's session shows it, which is one in UTC here."""
    return value.replace(tzinfo=timezone.utc) if column.type == "timestamp" else value


def _dates_and_times(column: Column, value: Any) -> Any:
    if column.type == "date":
        return date.fromisoformat(value)
    if column.type in ("datetime", "timestamp"):
        return _moment(value)
    return _number(column, value)


def _number(column: Column, value: Any) -> Any:
    if column.type == "float":
        return _single(value)
    if column.type == "double":
        return float(value)
    if column.type == "vector":
        return [_single(one) for one in value]
    return value


def _single(value: Any) -> float:
    (single,) = struct.unpack("<f", struct.pack("<f", float(value)))
    return float(single)


def _moment(text: str) -> datetime:
    zone = timezone.utc if text.endswith("Z") else None
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole).replace(microsecond=int(fraction.ljust(6, "0") or 0), tzinfo=zone)


def _time(micros: int, fraction: int) -> str:
    seconds, rest = divmod(abs(micros), 1_000_000)
    text = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{rest:06}"[: 1 + fraction] if fraction else "")
