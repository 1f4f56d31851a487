"""What becomes of values as a column of silver gets another type: by the names of Spark's types, pure."""

from __future__ import annotations

import re

_INTEGERS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}  # digits that Delta wants of a decimal for them
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(held: str, wanted: str) -> bool:
    """True if Delta widens the one to the other without touching a file, and every value stays the same."""
    names = [*_INTEGERS]
    if held in _INTEGERS and wanted in _INTEGERS:
        return names.index(held) < names.index(wanted)
    target = _DECIMAL.fullmatch(wanted)
    if target is not None:
        precision, scale = int(target[1]), int(target[2])
        source = _DECIMAL.fullmatch(held)
        if source is not None:
            return scale >= int(source[2]) and precision - scale >= int(source[1]) - int(source[2])
        return held in _INTEGERS and precision - scale >= _INTEGERS[held]
    if wanted == "double":
        return held in ("tinyint", "smallint", "int", "float")
    return (held, wanted) == ("date", "timestamp_ntz")


_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
_TIMES = ("date", "timestamp", "timestamp_ntz")


def castable(held: str, wanted: str) -> bool:
    """True if Spark casts between the two, both ways; it refuses other pairs before it looks at a value."""

    def family(kind: str) -> str:
        if kind in _NUMBERS or _DECIMAL.fullmatch(kind):
            return "number"
        return "time" if kind in _TIMES else kind

    one, other = family(held), family(wanted)
    known = {"number", "time", "string"}
    return one in known and other in known and (one == other or "string" in (one, other))


def carried_over(value: str, held: str, wanted: str, otherwise: str) -> str:
    """SQL: a value of type `held` in another type where the way back gives the same again; elsewhere `otherwise`."""
    if (held, wanted) == ("variant", "string"):
        return f"to_json({value})"
    if (held, wanted) == ("string", "variant"):
        there = f"try_parse_json({value})"
        return f"CASE WHEN {value} IS NULL OR {there} IS NOT NULL THEN {there} ELSE {otherwise} END"
    if not castable(held, wanted):
        return f"CASE WHEN {value} IS NULL THEN CAST(NULL AS {wanted}) ELSE {otherwise} END"
    there = f"try_cast({value} AS {wanted})"
    return f"CASE WHEN try_cast({there} AS {held}) <=> {value} THEN {there} ELSE {otherwise} END"
