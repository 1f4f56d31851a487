"""What bronze holds of columns that the configuration hides by now, as its table of schemas says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.redaction import Redaction

if TYPE_CHECKING:
    from lakehouse_cdc.lake.readers.port import TableReader
    from lakehouse_cdc.model.table_layout import Layout


def redactions(reader: TableReader, layout: Layout, choice: Choice) -> dict[str, Redaction]:
    """What is to be done for each table that bronze, which must be there, has met."""
    return redactions_of(reader.rows(layout.schemas, ["source_table", "seq", "schema"]), choice)


def redactions_of(rows: Iterable[Mapping[str, Any]], choice: Choice) -> dict[str, Redaction]:
    """The same, by those columns of all rows of the table of schemas."""
    ordered = sorted(rows, key=itemgetter("source_table", "seq"))
    return {
        name: Redaction.of(name, [(int(row["seq"]), parsed(row["schema"])) for row in its], choice)
        for name, its in groupby(ordered, itemgetter("source_table"))
    }


def parsed(text: str | None) -> dict[str, Any] | None:
    """A schema as the table has it; None where the source table was left off."""
    return None if text is None else json.loads(text)
