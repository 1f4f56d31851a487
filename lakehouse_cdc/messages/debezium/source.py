"""The block `source` of Debezium's messages, and its schema."""

from __future__ import annotations

from typing import Any

from lakehouse_cdc.messages.change import RowChange, Settings
from lakehouse_cdc.messages.texts import quoted
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.schema.table import TableSchema

_SNAPSHOT = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
# (field, Connect's type, optional), in the connector's order
_FIELDS = (
    ("version", "string", False), ("connector", "string", False), ("name", "string", False), ("ts_ms", "int64", False),
    ("snapshot", "string", True), ("db", "string", False), ("sequence", "string", True), ("ts_us", "int64", True),
    ("ts_ns", "int64", True), ("table", "string", True), ("server_id", "int64", False), ("gtid", "string", True),
    ("file", "string", False), ("pos", "int64", False), ("row", "int32", False), ("thread", "int64", True),
    ("query", "string", True),
)  # fmt: skip
_SNAPSHOT_FIELD = {
    "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1,
    "parameters": {"allowed": _SNAPSHOT}, "default": "false", "field": "snapshot",
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        _SNAPSHOT_FIELD if name == "snapshot" else {"type": kind, "optional": optional, "field": name}
        for name, kind, optional in _FIELDS
    ],
    "optional": False,
    "name": "io.debezium.connector.mysql.Source",
    "version": 1,
    "field": "source",
}


class Source:
    """The blocks of the changes of one table; `begin`, `database` and `table` are parts of all of them, as JSON."""

    def __init__(self, schema: TableSchema, settings: Settings) -> None:
        version, name = quoted(settings.version), quoted(settings.source)
        self.begin = f'{{"version":{version},"connector":"mysql","name":{name},"ts_ms":'
        self.database, self.table = quoted(schema.database), quoted(schema.table)

    def block(self, change: RowChange) -> str:
        """Its JSON. The times are those of the commit."""
        us = change.commit_us
        snapshot = "true" if change.op is Op.READ else "false"
        gtid = "null" if change.gtid is None or change.op is Op.READ else quoted(change.gtid)
        return (
            f'{self.begin}{us // 1000},"snapshot":"{snapshot}","db":{self.database},"sequence":null,'
            f'"ts_us":{us},"ts_ns":{us * 1000},"table":{self.table},"server_id":0,"gtid":{gtid},'
            f'"file":{quoted(change.file)},"pos":{change.pos},"row":{change.ordinal},"thread":null,"query":null}}'
        )
