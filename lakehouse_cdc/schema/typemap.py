"""The table of docs/reference/types.md, made from what `types.mapped` says of one column of each type."""

from __future__ import annotations

from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import Kind
from lakehouse_cdc.schema.types import mapped

_VARIANT = {
    Kind.STRING: "string",
    Kind.JSON: "string, as the server prints it",
    Kind.FLOATS: "array of float",
    Kind.DATETIME: "timestamp_ntz",
}
_ROWS: tuple[tuple[str, Column, str], ...] = (
    ("TINYINT, BOOL", Column("", "tinyint"), ""),
    ("TINYINT UNSIGNED, SMALLINT", Column("", "smallint"), ""),
    ("SMALLINT UNSIGNED, MEDIUMINT, INT", Column("", "int"), "ZEROFILL is how a client prints it"),
    ("INT UNSIGNED, BIGINT", Column("", "bigint"), ""),
    ("BIGINT UNSIGNED", Column("", "bigint", unsigned=True), ""),
    ("DECIMAL(p, s), p up to 38", Column("", "decimal", precision=10, scale=2), "p and s as declared"),
    ("DECIMAL(p, s), p from 39 on", Column("", "decimal", precision=65, scale=30), "all digits of the scale"),
    ("FLOAT", Column("", "float"), "its four bytes, never a rounded text"),
    ("DOUBLE", Column("", "double"), ""),
    ("BIT(1)", Column("", "bit", length=1), ""),
    ("BIT(2) to BIT(63)", Column("", "bit", length=2), ""),
    ("BIT(64)", Column("", "bit", length=64), ""),
    ("CHAR, VARCHAR, TEXT", Column("", "text", charset="utf8mb4"), "every character set; CHAR without trailing spaces"),
    ("ENUM, SET", Column("", "enum", charset="utf8mb4", values=("a",)), "labels; those of a SET with commas between"),
    ("BINARY, VARBINARY, BLOB", Column("", "blob"), "BINARY padded with 0x00 to its length"),
    ("DATE", Column("", "date"), "0000-00-00 and the like: see `source.zero_dates`"),
    ("DATETIME", Column("", "datetime"), "as DATE"),
    ("TIMESTAMP", Column("", "timestamp"), "in UTC, whatever the time zone of the session that wrote it"),
    ("TIME", Column("", "time"), "`-838:59:59.000000`: no type of Delta's holds it"),
    ("YEAR", Column("", "year"), ""),
    ("JSON", Column("", "json"), "JSON null is a VARIANT null, not NULL"),
    ("GEOMETRY, POINT, ...", Column("", "geometry"), "the SRID (4 bytes, little-endian), then WKB"),
    ("VECTOR", Column("", "vector"), ""),
    ("MariaDB's UUID, INET4, INET6", Column("", "uuid"), "as the server prints them"),
    ("MariaDB's JSON", Column("", "longtext", charset="utf8mb4"), "a text there, with a check"),
)


def markdown() -> str:
    """The table of docs/reference/types.md."""
    lines = ["| MySQL | bronze (VARIANT) | silver | |", "|---|---|---|---|"]
    for name, column, note in _ROWS:
        entry = mapped(column)
        assert entry is not None, name
        silver = entry.silver.replace("(10,2)", "(p, s)")
        lines.append(f"| {name} | {_VARIANT.get(entry.kind, silver)} | {silver} | {note} |")
    return "\n".join(lines)
