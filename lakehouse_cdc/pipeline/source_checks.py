"""What must be true of the source, and of the tables that the configuration selects there, before a pipeline runs.

Beside it, `target_checks` looks at the folders that the pipeline writes to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.mysql.catalog import read_catalog
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session
from lakehouse_cdc.mysql.estimates import estimates
from lakehouse_cdc.mysql.preflight import checks, group
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.config.source_options import choice
from lakehouse_cdc.schema.declared_key import with_key
from lakehouse_cdc.schema.representation import Rules, carry
from lakehouse_cdc.schema.selection import Selection, glob_hint
from lakehouse_cdc.schema.table import TableSchema


@dataclass(frozen=True)
class Checked:
    """`tables` are the captured ones, `size` is about how many bytes they have; None where the source is unfit."""

    findings: list[Finding]
    tables: Mapping[str, TableSchema] | None = None
    size: int = 0


def check(
    session: Session, connection: ConnectionOptions, config: PipelineConfig, layout: Layout, rules: Rules
) -> Checked:
    """Look at the server, and at the selected tables if they can be captured; `rules` are those of the source."""
    selection = Selection(config.source.tables)
    findings = checks.check(session, selection, choice(config), config.keys)
    at_fault = {finding.name for finding in findings if finding.is_of_table}
    if any(finding.severity == "error" and not finding.is_of_table for finding in findings):
        return Checked(findings)
    captured = read_catalog(session, selection, choice(config)).tables
    carried = {name: carry(schema, rules) for name, schema in captured.items()}
    findings += checks.zero_date_defaults(session, carried)
    findings += checks.large_rows(session, carried)
    findings += group.others(session, connection)
    findings += unused(config, captured)
    if layout.silver is not None:
        findings += _unfit(config, layout, {name: one for name, one in captured.items() if name not in at_fault})
    sizes = estimates(session)
    return Checked(findings, captured, sum(sizes[name].bytes for name in captured if name in sizes))


def unused(config: PipelineConfig, names: Collection[str]) -> list[Finding]:
    """The settings of tables that no captured table has, since a name is misspelt, or the table is yet to come."""
    return [
        Finding(
            pattern, "warning", f"what tables.{pattern} says is of no captured table",
            glob_hint(pattern)
            or (f"write {near} if that is meant" if near else "check its name, or wait for the table to come"),
        )
        for pattern, near in config.unmatched(names).items()
    ]  # fmt: skip


def _unfit(config: PipelineConfig, layout: Layout, tables: Mapping[str, TableSchema]) -> Iterator[Finding]:
    """The tables that silver cannot hold, for nothing tells their rows apart, or not as they are to be held, or not
    with such names of columns, or for which another has taken their silver table's name.
    """
    yield from map(_sharing, dict.fromkeys(layout.sharing_names(set(tables)).values()))
    for name, schema in tables.items():
        refused = config.policy(name).refusal([with_key(schema, config.keys)], layout.silver_table(name))
        if refused is not None:
            yield Finding(name, "warning", refused.what, refused.hint)


def _sharing(names: Sequence[str]) -> Finding:
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    what = f"{listed} have the same silver table: the first to come gets it, and the others are in bronze alone"
    hint = 'set target.silver_name: "{database}__{table}", or tables.<pattern>.silver_name'
    return Finding(names[0], "warning", what, hint)
