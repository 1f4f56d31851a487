"""`lakehouse-cdc report` and `monitoring`: a page of what a pipeline did, and files for those who watch pipelines."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from lakehouse_cdc.cli.command import Call
from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.errors import codes

_FILES = {
    "alerts.yml": "rules of Prometheus; promtool check rules alerts.yml",
    "dashboard.json": "a dashboard of Grafana's; Dashboards, New, Import",
}


def report(
    call: Call,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write; one that is there is replaced.")] = Path(
        "report.html"
    ),
    days: Annotated[float, typer.Option(min=0.01, help="How far back it goes.")] = 7.0,
) -> None:
    """Write one HTML page of what the pipeline did: lag, rows, batches, schema changes, quarantines, verify over time.

    It needs nothing from elsewhere. Lag and rows are those of `target.metrics`; the source is not asked.
    """
    from lakehouse_cdc.telemetry.report.page import html

    with call.opened() as pipeline:
        history = pipeline.history(days)
    try:
        written = out.with_name(f".{out.name}.{os.getpid()}")
        written.write_text(html(history), encoding="utf-8")
        written.replace(out)
    except OSError as error:
        raise codes.DRAFT_PLACE_UNUSABLE.error(
            f"cannot write {out}: {error.strerror}", hint="choose another place"
        ) from error
    call.screen.say(f"wrote {out}")
    for text in history.notes:
        call.screen.say(text)
    batches = sum(entry.layer == "bronze" for entry in history.entries)
    call.screen.result({"file": str(out), "batches": batches, "troubles": history.troubles, "notes": [*history.notes]})


def monitoring(
    screen: Screen,
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("."),
) -> None:
    """Write alert rules for Prometheus and a dashboard for Grafana, for all pipelines, to be kept as your own.

    A file that is there is never overwritten.
    """
    from lakehouse_cdc.draft.files import write

    data = files("lakehouse_cdc.telemetry") / "files"
    write({folder / name: (data / name).read_text(encoding="utf-8") for name in _FILES})
    for name, what in _FILES.items():
        screen.say(f"wrote {folder / name} ({what})")
    screen.result({"files": [str(folder / name) for name in _FILES]})
