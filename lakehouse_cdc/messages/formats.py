"""All formats, by the names that the configuration gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, get_args

from lakehouse_cdc.messages import canal, canal_reader, changelog, flat, maxwell, maxwell_reader
from lakehouse_cdc.messages.change import Format, Settings
from lakehouse_cdc.messages.debezium import avro, avro_reader, envelope
from lakehouse_cdc.messages.debezium import reader as debezium
from lakehouse_cdc.messages.reading import Declared, Reader
from lakehouse_cdc.schema.table import TableSchema

if TYPE_CHECKING:
    from lakehouse_cdc.messages.columnwise import ColumnFormat

FormatName = Literal["debezium-json", "debezium-avro", "flat", "canal-json", "maxwell", "changelog-json"]
FORMATS: dict[FormatName, Format] = {
    "debezium-json": envelope.writer,
    "debezium-avro": avro.writer,
    "flat": flat.writer,
    "canal-json": canal.writer,
    "maxwell": maxwell.writer,
    "changelog-json": changelog.writer,
}
assert set(FORMATS) == set(get_args(FormatName))


NOTHING = b"%b"  # around a message


def by_columns(name: FormatName) -> ColumnFormat | None:
    """The writer of the same messages, but for what is `around` each, a column at a time; None of other formats."""
    from lakehouse_cdc.messages import flat_columnwise  # which need Arrow, as nobody does who looks at names alone
    from lakehouse_cdc.messages.debezium import columnwise

    formats: dict[FormatName, ColumnFormat] = {
        "debezium-json": columnwise.writer, "flat": flat_columnwise.flat, "changelog-json": flat_columnwise.changes,
    }  # fmt: skip
    return formats.get(name)


def around(name: FormatName, schema: TableSchema, settings: Settings) -> tuple[bytes, bytes]:
    """What goes around keys and values that were written by columns: patterns of bytes that have one %b.

    It is `NOTHING` itself where that is nothing.
    """
    described = name == "debezium-json" and settings.schemas
    return envelope.around(schema, settings) if described else (NOTHING, NOTHING)


ReadFormat = Literal["debezium-json", "debezium-avro", "canal-json", "maxwell"]  # those that are read
READERS: dict[ReadFormat, Callable[[Declared], Reader]] = {
    "debezium-json": debezium.reader,
    "debezium-avro": avro_reader.reader,
    "canal-json": canal_reader.reader,
    "maxwell": maxwell_reader.reader,
}
assert set(READERS) == set(get_args(ReadFormat))
