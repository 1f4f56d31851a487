"""`lakehouse-cdc init`: a pipeline's file for the tables of a live source."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse_cdc.cli.exits import DIFFERENCE
from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.model.table_name import split

if TYPE_CHECKING:
    from lakehouse_cdc.draft.pipeline_file import Draft
    from lakehouse_cdc.mysql.preflight.settings import Finding

PLAIN = re.compile(r"[A-Za-z0-9_]+")
_STEPS = {
    "doctor": "what must be true of the source",
    "run --once": "everything up to now, then stop",
    "verify": "silver against the source",
}


def init(
    screen: Screen,
    url: Annotated[str, typer.Option(help="The source: mysql://user@host:port.")],
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("pipeline.yml"),
    tables: Annotated[
        list[str] | None,
        typer.Option(help="Patterns on database.table, as shop.*; ! excludes. Repeatable; all tables by default."),
    ] = None,
    path: Annotated[str, typer.Option(help="The folder of the tables, from the file's folder on.")] = "./lakehouse",
    name: Annotated[str, typer.Option(help="The pipeline's name; by default the first pattern's database.")] = "",
    password_env: Annotated[str, typer.Option(help="The environment variable with the password.")] = "",
    tls: Annotated[str, typer.Option(help="As source.tls.")] = "preferred",
) -> None:
    """Write a pipeline's file for the tables of a live source: sizes, keys, and what cannot be captured, and why.

    No password is written. A file that is there is never overwritten. Exit code 1, with the file written, if `doctor`
    finds what must be fixed on the source first.
    """
    from lakehouse_cdc.draft.examine import examined
    from lakehouse_cdc.draft.files import write
    from lakehouse_cdc.draft.pipeline_file import Draft
    from lakehouse_cdc.draft.survey import Survey

    patterns = tuple(tables or ["*.*"])
    name = name or _name(patterns)
    password = f"${{env:{password_env}}}" if password_env else ""
    target: dict[str, str | bool] = {"path": path, "bronze": f"{name}_bronze", "silver": f"{name}_silver"}
    draft, findings = examined(Draft(name, url, password, tls, patterns, target, Survey({})), None)
    heading = [
        f"Drafted by `lakehouse-cdc init` on {datetime.now(timezone.utc):%Y-%m-%d}; it is yours from here on.",
        "The source's tables then, the largest first; one that comes later and matches is captured, too:",
    ]
    write({file: draft.text(heading)})
    show_draft(screen, draft, findings)
    screen.say(f"{file} has {len(draft.survey.tables)} tables. Next:")
    for step, what in _STEPS.items():
        screen.command(f"lakehouse-cdc {step} -c {shlex.quote(str(file))}  # {what}")
    end_with_draft(screen, {"file": str(file)}, draft, findings)


def _name(patterns: Sequence[str]) -> str:
    database, _ = split(next((pattern for pattern in patterns if not pattern.startswith("!")), ""))
    return database if PLAIN.fullmatch(database) else "mysql"


def show_draft(screen: Screen, draft: Draft, findings: Sequence[Finding]) -> None:
    """What `doctor` says, and what is not captured."""
    if not screen.as_json:
        screen.findings(findings)
    for table, columns in draft.survey.excluded.items():
        for column, reason in columns.items():
            screen.say(f"{table}.{column}: {reason}", "excluded", "yellow")
    for table, reason in draft.survey.left_out.items():
        screen.say(f"{table}: {reason}", "left out", "yellow")


def end_with_draft(screen: Screen, written: Mapping[str, Any], draft: Draft, findings: Sequence[Finding]) -> None:
    """The result for machines; exit code 1 where something must be fixed on the source."""
    survey = draft.survey
    wrong = [finding for finding in findings if finding.severity == "error"]
    screen.result({
        **written,
        "tables": {table.name: {"key": list(table.key), "columns": [column.name for column in table.columns]}
                   for table in survey.tables.values()},
        "excluded": survey.excluded, "left_out": survey.left_out,
        "healthy": not wrong, "findings": [finding.as_json() for finding in findings],
    })  # fmt: skip
    if wrong:
        raise typer.Exit(DIFFERENCE)
