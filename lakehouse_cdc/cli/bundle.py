"""`lakehouse-cdc bundle`: a Databricks bundle for the user's own tables, and how its last runs ended."""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
import yaml

from lakehouse_cdc.cli.command import command
from lakehouse_cdc.cli.exits import DIFFERENCE
from lakehouse_cdc.cli.init import PLAIN, end_with_draft, show_draft
from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import split

app = typer.Typer(help="A Databricks bundle for your own tables, and its last runs.", no_args_is_help=True)
_WAREHOUSE = "Serverless Starter Warehouse"  # which a new workspace has


class Cloud(str, Enum):
    """Whose machines they are."""

    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"


Folder = Annotated[Path, typer.Argument(help="The bundle's folder.")]


@command(app)
def init(
    screen: Screen,
    folder: Folder,
    url: Annotated[str, typer.Option(help="The source: mysql://user@host:port.")],
    tables: Annotated[list[str], typer.Option(help="Patterns on database.table, as shop.*; ! excludes. Repeatable.")],
    catalog: Annotated[str, typer.Option(help="The catalog of bronze, silver and checkpoints. It must exist.")],
    name: Annotated[str, typer.Option(help="The pipeline's name; by default the first pattern's database.")] = "",
    password_ref: Annotated[str, typer.Option(help="The password for the file: ${secret:scope/key}.")] = "",
    password_env: Annotated[str, typer.Option(help="An environment variable with the password, to ask now.")] = "",
    tls: Annotated[str, typer.Option(help="As source.tls.")] = "preferred",
    schema: Annotated[str, typer.Option(help="The schema of the checkpoints' volume; by default NAME_cdc.")] = "",
    bronze: Annotated[str, typer.Option(help="By default NAME_bronze.")] = "",
    silver: Annotated[str, typer.Option(help="By default NAME_silver.")] = "",
    wheel: Annotated[
        str, typer.Option(help="Of this package, here or in a volume; by default made of what is installed here.")
    ] = "",
    cloud: Annotated[Cloud, typer.Option(help="Whose machines the jobs' clusters are made of.")] = Cloud.AWS,
    node_type: Annotated[str, typer.Option(help="Other machines than the usual ones of the cloud.")] = "",
    warehouse: Annotated[str, typer.Option(help="The SQL warehouse of dashboard and alert, by name.")] = _WAREHOUSE,
) -> None:
    """Write a bundle for the tables of a live source: its configuration, its jobs, and what cannot be captured.

    No secret is written. Files that are there are never overwritten. Exit code 1, with the files written, if `doctor`
    finds what must be fixed on the source first.
    """
    from lakehouse_cdc.bundle.files import CLOUDS, Package, Plan
    from lakehouse_cdc.draft.examine import examined
    from lakehouse_cdc.draft.pipeline_file import Draft
    from lakehouse_cdc.draft.survey import Survey

    name = name or _name(tables)
    target = Plan.target(catalog, schema or f"{name}_cdc", bronze or f"{name}_bronze", silver or f"{name}_silver")
    scope = name if password_env and not password_ref else ""
    password = Plan.password(scope) if scope else _given(password_ref)
    draft = Draft(name, url, password, tls, tuple(tables), target, Survey({}))
    package = Package.of(wheel)
    draft, findings = examined(draft, f"${{env:{password_env}}}" if password_env else None)
    machines = node_type or CLOUDS[cloud.value]
    plan = Plan(draft, schema or f"{name}_cdc", package, machines, str(uuid4()), warehouse, scope)
    written = plan.write(folder)
    show_draft(screen, draft, findings)
    screen.say(f"{len(draft.survey.tables)} tables in {len(written)} files below {folder}. Next:")
    for step in [f"cd {shlex.quote(str(folder))}", *plan.steps]:
        screen.command(step)
    files = [str(path.relative_to(folder)) for path in written]
    end_with_draft(screen, {"folder": str(folder), "files": files}, draft, findings)


def _name(patterns: list[str]) -> str:
    database, _ = split(next((p for p in patterns if not p.startswith("!")), ""))
    if not PLAIN.fullmatch(database):
        raise codes.DRAFT_SETTING_INVALID.error(
            f"'{database}' does not make a name", where="--name", hint="give the pipeline a --name"
        )
    return database


def _given(reference: str) -> str:
    """The user's own reference; a job on Databricks has no environment variable of this machine's."""
    if reference and not reference.startswith("${secret:"):
        # not repeated: it may be the password itself
        raise codes.DRAFT_SETTING_INVALID.error(
            "a job on Databricks takes its password from a secret", where="--password-ref", hint="${secret:scope/key}"
        )
    return reference


@command(app)
def status(
    screen: Screen,
    folder: Folder = Path(),
    target: Annotated[str, typer.Option("--target", "-t", help="One target in development mode, as dev.")] = "",
) -> None:
    """How the last runs of a deployed bundle's jobs and pipelines ended. Exit code 1 if one of them failed."""
    from lakehouse_cdc.bundle.runs import last_runs
    from lakehouse_cdc.runtime.workspace import client

    bundle = _bundle(folder)
    runs = last_runs(client(), bundle, target)
    if not screen.as_json:
        rows = [
            [run.target, run.kind, run.name, run.result or "none yet", "now" if run.running else "",
             "" if run.began is None else f"{run.began:%Y-%m-%d %H:%M:%S}",
             "" if run.seconds is None else f"{run.seconds:,.0f}"]
            for run in runs
        ]  # fmt: skip
        screen.table(bundle, ["target", "kind", "name", "last run", "running", "began (UTC)", "seconds"], rows)
        for run in (run for run in runs if run.failed):
            screen.say(f"{run.name}: {run.why or run.result} {run.url}".rstrip(), "failed", "red")
    failed = any(run.failed for run in runs)
    screen.result({"bundle": bundle, "failed": failed, "runs": [run.to_json() for run in runs]})
    if failed:
        raise typer.Exit(DIFFERENCE)


def _bundle(folder: Path) -> str:
    """The name that a bundle's own file gives it."""
    path = folder / "databricks.yml"
    try:
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        return str(declared["bundle"]["name"])
    except OSError as error:
        raise codes.BUNDLE_NOT_DEPLOYED.error(
            f"cannot read {path}: {error.strerror}", hint="name the bundle's folder"
        ) from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise codes.BUNDLE_NOT_DEPLOYED.error(
            "the file names no bundle", where=str(path), hint="bundle: {name: ...}"
        ) from error
