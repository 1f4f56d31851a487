"""What is made from the table of options for people and editors: a JSON schema, and a page of the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from lakehouse_cdc.options.declaration import Change, Keys, Option, Section, declared_in
from lakehouse_cdc.options.source import Places
from lakehouse_cdc.pipeline.config.model import TABLE, PipelineConfig

_INTRODUCTION = """\
# Configuration

A pipeline is described by one file, `pipeline.yml`. A key that
is not listed here is refused, with its line and the nearest known key. `docs/reference/pipeline.schema.json` is a JSON
schema of the file, for editors; `lakehouse-cdc config --schema` prints it.

Every command takes `--set KEY=VALUE` for a key, in place of what the file says: `--set source.url=mysql://cdc@db2`,
`--set "tables.shop.orders.scd=2"`. The value is YAML. So do the parameters of a Databricks job reach the pipeline.

Secrets are given by reference: `${env:NAME}`, `${file:/path}`, or `${secret:scope/key}` on Databricks. A secret itself
is refused, and no error repeats it.

*Changes apply to* says what a changed value has an effect on, in a pipeline that has run:

"""
_APPLY = {
    Change.NEXT_RUN: "the run that starts after the change uses it.",
    Change.REREAD: "tables that it concerns are read again; `run --plan` names them. What bronze has stays.",
    Change.REBUILD: "the silver table is built again from bronze, beside the old one, and replaces it in one commit;"
    " `run --plan` names it. A table that several go into refuses another value.",
    Change.NEW_TABLE: "a silver table keeps what it was made with; move it away to have it built again from bronze.",
    Change.NEVER: "it names the pipeline or its places; with another value it is another pipeline.",
}
_COLUMNS = ("key", "source option", "meaning", "value", "default", "changes apply to")
_SOURCE = """\
## Options of the source alone

`spark.readStream.format("mysql_cdc")` takes the options in the column *source option* (case does not matter), as text:
a list in JSON or with commas between, and of a key under `tables.<pattern>` a JSON object of pattern: value. Secrets
are values there. The pipeline sets these as well:
"""


_SECTIONS = ("source", "target", "run", "spark")


def json_schema() -> str:
    """The JSON schema of `pipeline.yml`, as the text of a file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipeline.yml of lakehouse-cdc",
        **Section(PipelineConfig).json_schema(),
    }
    return json.dumps(schema, indent=2) + "\n"


def markdown() -> str:
    """The page `docs/reference/configuration.md`."""
    parts = [_INTRODUCTION + "\n".join(f"- **{change.value}**: {what}" for change, what in _APPLY.items()) + "\n"]
    for section in ("", "source", "source.kafka", "target", "run", "spark", "tables.<pattern>", "sinks.<name>.kafka"):
        rows = [one for one in TABLE if one.path.rpartition(".")[0] == section]
        parts.append(f"## {f'`{section}`' if section else 'The pipeline'}\n\n{_rows(rows)}")
    parts.append(_SOURCE + "\n" + _rows(declared_in(Places)))
    return "\n".join(parts)


def effective(config: PipelineConfig) -> list[tuple[str, object, str]]:
    """Each key, its value, and "default" where the file does not give it; a secret is its reference, as there."""
    options: list[tuple[str, object, str]] = []
    sections: dict[str, Keys] = {"": config}
    sections |= {f"{name}.": getattr(config, name) for name in _SECTIONS}
    topics = config.source.kafka
    sections |= {} if topics is None else {"source.kafka.": topics}
    sections |= {f"tables.{pattern}.": keys for pattern, keys in config.tables.items()}
    sections |= {f"sinks.{name}.kafka.": sink.kafka for name, sink in config.sinks.items()}
    for prefix, keys in sections.items():
        for one in declared_in(type(keys)):
            value, given = getattr(keys, one.path), one.path in keys.given
            is_value = f"{prefix}{one.path}" not in (*_SECTIONS, "source.kafka", "tables", "sinks")
            of_server = topics is not None and prefix == "source."
            if is_value and (given or not (of_server or prefix.startswith(("tables.", "sinks.")))):
                options.append((f"{prefix}{one.path}", value, "" if given else "default"))
    return options


def as_written(value: object) -> str:
    """A value as the file has it: a list in brackets, a missing one as null."""
    return value if isinstance(value, str) else json.dumps(value)


def _rows(options: Iterable[Option]) -> str:
    """A Markdown table of the options, without columns that are empty throughout."""
    rows = [[*_cells(one)] for one in options]
    filled = [i for i in range(len(_COLUMNS)) if any(row[i] for row in rows)]
    lines = [[_COLUMNS[i] for i in filled], ["---"] * len(filled), *([row[i] for i in filled] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(one: Option) -> Iterator[str]:
    yield f"`{one.path.rpartition('.')[2]}`" if one in TABLE else ""
    yield f"`{one.spark}`" if one.spark else ""
    yield one.meaning
    yield one.kind.title + (f", {one.kind.unit}" if one.kind.unit else "")
    yield _default(one)
    yield one.changes.value


def _default(one: Option) -> str:
    if one.required:
        return "required"
    if one.otherwise:
        return one.otherwise
    if isinstance(one.default, bool):
        return f"`{str(one.default).lower()}`"
    if isinstance(one.default, int | float):
        return _size(one.default)
    return f"`{one.default}`" if one.default else "none"


def _size(number: float) -> str:
    """As people write it: 32 MiB for a size, 10 for 10.0."""
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if number >= 1 << power:
            return f"{number / (1 << power):g} {unit}"
    return f"{number:g}"
