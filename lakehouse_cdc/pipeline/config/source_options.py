"""From the configuration to what the `mysql_cdc` source, and a session beside it, are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.start_point import option_text
from lakehouse_cdc.mysql.connection.session import ConnectionOptions
from lakehouse_cdc.options.connection import check_together, connection_of, resolved
from lakehouse_cdc.options.declaration import declared_in
from lakehouse_cdc.options.secrets import CONNECTION
from lakehouse_cdc.options.source import CapturedTable, SourceConfig
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.masks import parsed
from lakehouse_cdc.schema.selection import Selection

if TYPE_CHECKING:
    from lakehouse_cdc.topics.declared import Declarations

_MADE_HERE = {"tables", "start", "mask_salt"}  # and those of the connection


def source_options(config: PipelineConfig, home: Path, schemas: str) -> dict[str, str]:
    """The options of the source, its secrets among them; `schemas` is its folder, relative paths start at `home`."""
    source, tables = config.source, config.tables
    values = {
        "exclude": {p: t.exclude for p, t in tables.items() if t.exclude},
        "include": {p: t.include for p, t in tables.items() if t.include is not None},
        "masks": {p: t.masks for p, t in tables.items() if t.masks},
        "key": config.keys,
        "types": {p: t.types for p, t in tables.items() if t.types},
        "start": {p: t.start for p, t in tables.items() if t.start is not None},
        "on_error": {p: t.on_error for p, t in config.tables_that_set("on_error").items()},
        # a frozen table concerns silver alone: bronze has everything
        "schema_changes": {
            p: "stop" if t.schema_changes == "stop" else "evolve"
            for p, t in config.tables_that_set("schema_changes").items()
        },
    }
    connection = resolved(source, home)
    declared = [option for option in declared_in(SourceConfig) if option.spark]
    options = {
        **{one.spark: _text(connection[one.path]) for one in declared if connection.get(one.path)},
        "tables": json.dumps(source.tables),
        "start": option_text(source.start),
        "schemaFolder": schemas,
        **{option.spark: json.dumps(values[option.path]) for option in declared_in(CapturedTable)},
        **{
            option.spark: str(value)
            for option in declared
            if option.path not in _MADE_HERE | connection.keys() and (value := getattr(source, option.path)) is not None
        },
    }
    return options | ({"maskSecret": source.mask_salt.reveal()} if source.mask_salt else {})


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, tuple) else str(value)


def connection_options(config: PipelineConfig, home: Path) -> ConnectionOptions:
    """How to reach the source from here."""
    return connection_of(resolved(config.source, home))


def check_alone(config: PipelineConfig) -> None:
    """What a run would refuse before it asks a server, and no single value shows. Raises ConfigError."""
    if config.source.kafka is None:
        if not CONNECTION.fullmatch(config.source.url):  # else a workspace has the url
            ConnectionOptions.from_url(config.source.url, tls=config.source.tls)
        check_together(vars(config.source))
        Selection(config.source.tables)
    else:
        declarations(config)
    for pattern in config.tables:
        if not set(pattern) & set("*?["):
            config.policy(pattern)


def declarations(config: PipelineConfig) -> Declarations:
    """What the configuration says of tables in topics: columns and keys. Raises ConfigError for what is no type."""
    from lakehouse_cdc.messages.reading import Unreadable
    from lakehouse_cdc.topics.declared import Declarations

    said = Declarations(config.columns, config.keys)
    try:
        said.made()
    except Unreadable as error:
        raise codes.CONFIG_FILE_INVALID.error(f"tables.<pattern>.columns: {error.detail}") from error
    return said


def choice(config: PipelineConfig) -> Choice:
    """Which columns are captured and masked, as far as the configuration says without its secrets."""
    tables = config.tables.items()
    return Choice(
        exclude={pattern: t.exclude for pattern, t in tables if t.exclude},
        include={pattern: t.include for pattern, t in tables if t.include is not None},
        masks={pattern: {c: parsed(mask) for c, mask in t.masks.items()} for pattern, t in tables if t.masks},
        generated=config.source.generated,
    )
