"""All formats, by the names that the configuration gives."""

from __future__ import annotations

from typing import Literal, get_args

from lakehouse_cdc.messages import canal, changelog, flat, maxwell
from lakehouse_cdc.messages.change import Format
from lakehouse_cdc.messages.debezium import envelope

FormatName = Literal["debezium-json", "flat", "canal-json", "maxwell", "changelog-json"]
FORMATS: dict[FormatName, Format] = {
    "debezium-json": envelope.writer,
    "flat": flat.writer,
    "canal-json": canal.writer,
    "maxwell": maxwell.writer,
    "changelog-json": changelog.writer,
}
assert set(FORMATS) == set(get_args(FormatName))
