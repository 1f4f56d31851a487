"""Key and value of Debezium's messages: the envelope, with and without schemas.

The schema of a key is `<topic>.Key`, of a row `<topic>.Value`, of the whole `<topic>.Envelope` in version 2. The order
of all fields is the connector's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse_cdc.messages.change import Message, RowChange, Settings, Writer, headers_of, with_tombstone
from lakehouse_cdc.messages.debezium.columns import Form, form_of, source_parameters
from lakehouse_cdc.messages.debezium.source import SCHEMA, Source
from lakehouse_cdc.messages.texts import may_be_null, row_object
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import Column, TableSchema

_TRANSACTION = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}


def writer(schema: TableSchema, settings: Settings) -> Writer:
    """The messages of a table, see `lakehouse_cdc.messages.debezium`."""
    plain = payloads(schema, settings, described=settings.schemas)
    if not settings.schemas:
        return plain
    around_key, around_value = around(schema, settings)

    def messages(change: RowChange, now_us: int) -> list[Message]:
        return [
            Message(
                None if one.key is None else around_key % one.key,
                None if one.value is None else around_value % one.value,
                one.headers,
            )
            for one in plain(change, now_us)
        ]

    return messages


def around(schema: TableSchema, settings: Settings) -> tuple[bytes, bytes]:
    """The schemas around a key's payload and a value's, as patterns of bytes that have one %b."""
    described = (_json(one).replace("%", "%%") for one in schemas(schema, settings))
    key, value = (f'{{"schema":{one},"payload":%b}}'.encode() for one in described)
    return key, value


def payloads(schema: TableSchema, settings: Settings, *, described: bool) -> Writer:
    """The same without schemas. `described`: they go with schemas, so each row has all of its columns, or is null."""
    pieces = {column.name: form_of(column, exact=settings.exact).piece for column in schema.captured}
    key_pieces = {name: pieces[name] for name in schema.key}
    source = Source(schema, settings)

    def deleted(change: RowChange) -> str:
        if change.before is not None:
            return row_object(pieces, change.before)
        # the key is all that is known: no row of the schema, which may have columns that are never null
        return "null" if described else row_object(pieces, {**dict.fromkeys(pieces), **change.row})

    def messages(change: RowChange, now_us: int) -> list[Message]:
        key = None if change.key is None else row_object(key_pieces, change.key).encode()
        before = after = "null"
        if change.op is Op.DELETE:
            before = deleted(change)
        else:
            after = row_object(pieces, change.row)
            before = "null" if change.before is None else row_object(pieces, change.before)
        value = (
            f'{{"before":{before},"after":{after},"source":{source.block(change)},'
            f'"transaction":null,"op":"{change.op.value}","ts_ms":{now_us // 1000},"ts_us":{now_us},'
            f'"ts_ns":{now_us * 1000}}}'
        )
        return with_tombstone([Message(key, value.encode(), headers_of(change))], change, settings)

    return messages


def schemas(schema: TableSchema, settings: Settings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of a key and of a value, as Connect's JsonConverter writes them."""
    forms = {column.name: form_of(column, exact=settings.exact) for column in schema.captured}
    fields = {column.name: _field(column, forms[column.name], settings) for column in schema.captured}
    key = _struct(schema.key, fields, f"{settings.topic}.Key", optional=False)
    return key, _envelope(fields, settings.topic)


def _field(column: Column, form: Form, settings: Settings) -> dict[str, Any]:
    """A field of a row's schema; in the exact mode it says MySQL's own type, too."""
    field = form.schema(may_be_null(column))
    if settings.exact:
        field["parameters"] = {**field.get("parameters", {}), **source_parameters(column)}
    return {**field, "field": column.name}


def _struct(names: Iterable[str], fields: Mapping[str, Any], name: str, *, optional: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": [fields[one] for one in names], "optional": optional, "name": name}


def _envelope(fields: Mapping[str, Any], topic: str) -> dict[str, Any]:
    row = _struct(fields, fields, f"{topic}.Value", optional=True)
    times = [{"type": "int64", "optional": True, "field": name} for name in ("ts_ms", "ts_us", "ts_ns")]
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            SCHEMA,
            _TRANSACTION,
            {"type": "string", "optional": False, "field": "op"},
            *times,
        ],
        "optional": False,
        "name": f"{topic}.Envelope",
        "version": 2,
    }


def _json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
