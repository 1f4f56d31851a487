"""All formats, by the names that the configuration gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from lakehouse_cdc.messages import canal, canal_reader, changelog, flat, maxwell, maxwell_reader
from lakehouse_cdc.messages.change import Format
from lakehouse_cdc.messages.debezium import avro, avro_reader, envelope
from lakehouse_cdc.messages.debezium import reader as debezium
from lakehouse_cdc.messages.reading import Declared, Reader

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

ReadFormat = Literal["debezium-json", "debezium-avro", "canal-json", "maxwell"]  # those that are read
READERS: dict[ReadFormat, Callable[[Declared], Reader]] = {
    "debezium-json": debezium.reader,
    "debezium-avro": avro_reader.reader,
    "canal-json": canal_reader.reader,
    "maxwell": maxwell_reader.reader,
}
assert set(READERS) == set(get_args(ReadFormat))
