"""`lakehouse-cdc`: demo, init, config, doctor, run, status, verify, report, as-of, signal, reset, and others."""

from __future__ import annotations

import sys
from contextlib import ExitStack, nullcontext
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from lakehouse_cdc.cli import bundle, dead_letters
from lakehouse_cdc.cli.command import Call, command
from lakehouse_cdc.cli.exits import CONTINUES, DIFFERENCE, DOES_THE_REST
from lakehouse_cdc.cli.init import init
from lakehouse_cdc.cli.interval import interval
from lakehouse_cdc.cli.logs import json_lines
from lakehouse_cdc.cli.report import monitoring, report
from lakehouse_cdc.cli.show import Screen, Ticker
from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.place import is_url
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.config.reference import as_written, effective, json_schema
from lakehouse_cdc.pipeline.config.source_options import check_alone
from lakehouse_cdc.pipeline.requests import Action, Request, answer, read_again

app = typer.Typer(
    help="MySQL into a Delta lakehouse: exact at a binlog position, without locks, verified.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(bundle.app, name="bundle")
app.add_typer(dead_letters.app, name="dead-letters")
DEMO = "lakehouse-demo"
_OLD_FILES = (
    "the files that were replaced hold the values until Delta lets them go, after 7 days unless a table says otherwise:"
    " lakehouse-cdc maintain --vacuum -c pipeline.yml deletes them then"
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lakehouse-cdc {version('lakehouse-cdc')}")
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version, and exit.")
    ] = False,
) -> None:
    """What all commands share."""


def main() -> None:
    """The entry point. Success is a plain return: Databricks takes every SystemExit of a wheel task for a failure."""
    try:
        app()
    except SystemExit as ended:
        if ended.code:
            raise


@command(app, interrupted=CONTINUES)
def demo(
    screen: Screen,
    rows: Annotated[int, typer.Option(min=100, help="Rows to load before the snapshot begins.")] = 50_000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep server and tables; the next --keep resumes.")] = False,
    path: Annotated[
        str, typer.Option(help="The folder for --keep; or where the tables are to lie, and stay: s3://bucket/prefix.")
    ] = DEMO,
    endpoint: Annotated[str, typer.Option(help="Of a store that is not AWS's: http://host:port.")] = "",
    url: Annotated[str, typer.Option(help="Your own server: mysql://user@host:port.")] = "",
) -> None:
    """A real MySQL server, a shop with live writes, bronze and silver brought up, verified against the source.

    With --url, the password is taken from the environment variable LAKEHOUSE_CDC_PASSWORD. With --path s3://..., the
    keys are those of the environment, and the server is kept in the folder lakehouse-demo.
    """
    from lakehouse_cdc.cli.demo import Place, run_demo

    in_bucket = is_url(path)
    place = Place(Path(DEMO if in_bucket else path) if keep or in_bucket else None, path if in_bucket else "", endpoint)
    verified = run_demo(screen, rows=rows, place=place, url=url)
    if not verified:
        raise typer.Exit(DIFFERENCE)


command(app)(init)
command(app)(report)
command(app)(monitoring)


@command(app)
def config(
    screen: Screen,
    file: Annotated[Path | None, typer.Option("--config", "-c", help="The file to check; no server is asked.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON schema of the file, for editors.")] = False,
) -> None:
    """Check a configuration file, and say what it comes to; or print the JSON schema of such files."""
    if schema == (file is not None):
        raise codes.COMMAND_MISUSED.error(
            "config takes either --config FILE or --schema", hint="lakehouse-cdc config --help says what they are"
        )
    if file is None:
        print(json_schema(), end="")
        return
    loaded = load(file)
    check_alone(loaded)
    values = effective(loaded)
    screen.table(str(file), ["key", "value", ""], [[key, as_written(value), given] for key, value, given in values])
    screen.result({key: value for key, value, _ in values})


@command(app)
def doctor(call: Call) -> None:
    """Everything that must be true of the source and the target, what is not, and how to fix it."""
    pipeline = call.pipeline()
    findings, left_out = pipeline.doctor(), pipeline.uncaptured().all
    if not call.screen.as_json:
        call.screen.findings(findings)
    wrong = [f for f in findings if f.severity == "error"]
    call.screen.result({"healthy": not wrong, "findings": [f.as_json() for f in findings], "uncaptured": left_out})
    if wrong:
        raise typer.Exit(DIFFERENCE)


class LogFormat(str, Enum):
    """How a run says what it does."""

    TEXT = "text"
    JSON = "json"


@command(app, interrupted=CONTINUES)
def run(
    call: Call,
    once: Annotated[bool, typer.Option("--once", help="All that is there now, then stop.")] = False,
    every: Annotated[
        float | None,
        typer.Option(parser=interval, metavar="TIME", help="Between batches, as 10s or 500ms; in place of run.every."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Say what a changed file would do, and do nothing.")] = False,
    log: Annotated[
        LogFormat, typer.Option(help="With json, stderr has a line of JSON for each batch and each warning.")
    ] = LogFormat.TEXT,
) -> None:
    """Bring bronze and silver up to the source, until interrupted (Ctrl-C) or, with --once, until all is there."""
    if plan:
        sentences = call.pipeline().plan()
        for sentence in sentences or ["the tables are configured as in the last batch"]:
            call.screen.say(sentence)
        call.screen.result({"changes": sentences})
        return
    with call.opened() as pipeline, ExitStack() as showing:
        if log is LogFormat.JSON:
            showing.enter_context(json_lines(sys.stderr))
            ticker = None
        else:
            ticker = showing.enter_context(Ticker(call.screen, pipeline.estimates()))
        done = pipeline.run(once=once, every_seconds=every, progress=ticker)
    data = done.to_json()
    if not call.screen.as_json:
        rows = [[name, *(counts.get(k, 0) for k in ("rows", "r", "c", "u", "d"))]
                for name, counts in data["tables"].items()]  # fmt: skip
        call.screen.table("Into bronze", ["table", "rows", "read", "inserts", "updates", "deletes"], rows)
        if data["position"]:
            call.screen.say(f"position: {data['position']['file']}:{data['position']['pos']}")
        call.screen.quarantined(done.quarantined)
        call.screen.uncaptured(done.uncaptured.all)
        for notice in done.notices:
            call.screen.say(notice)
    call.screen.result(data)
    if done.interrupted:
        raise KeyboardInterrupt


@command(app)
def status(call: Call) -> None:
    """The state of the pipeline: position, lag, snapshots, rows, the error that ended the last run, quarantined tables.

    Exit code 1: the last run ended by an error, or a table is quarantined; each with what to do.
    """
    with call.opened() as pipeline:
        state = pipeline.status()
        if not call.screen.as_json:
            call.screen.status(state)
        call.screen.result(state.to_json())
    if not state.healthy:
        raise typer.Exit(DIFFERENCE)


class Layers(str, Enum):
    """What can be compared with the source."""

    SILVER = "silver"
    BRONZE = "bronze"
    ALL = "all"


@command(app)
def verify(
    call: Call,
    layer: Annotated[Layers, typer.Option(help="What to compare: silver's tables, what bronze folds to, or both.")]
    = Layers.SILVER,
    repair: Annotated[bool, typer.Option("--repair", help="Have what differs be read again.")] = False,
) -> None:  # fmt: skip
    """Compare silver, or bronze, with the source at one position, while writes continue.

    Exit code 0: all that can be compared is equal. 1: a row differs, silver's type cannot hold a value, a table is
    quarantined, or one could not be compared. Each table's line says which.
    """
    with call.opened() as pipeline:
        verified, results = True, {}
        for one in ("silver", "bronze") if layer is Layers.ALL else (layer.value,):
            compared = pipeline.verify(one)
            asked = pipeline.repair(compared) if repair else {}
            if not call.screen.as_json:
                call.screen.comparison(compared)
            keys = {name: n for name, n in asked.items() if n is not None}
            whole = [name for name, n in asked.items() if n is None]
            if asked:
                call.screen.say(read_again([*(f"{n:,} keys of {name}" for name, n in keys.items()), *whole]))
            again = {"keys_read_again": keys, "read_again": whole} if repair else {}
            results[one] = {**compared.to_json(), **again}
            verified = verified and compared.verified
        call.screen.result({"verified": verified, **results} if layer is Layers.ALL else results[layer.value])
        if not verified:
            raise typer.Exit(DIFFERENCE)


@command(app, interrupted=DOES_THE_REST)
def maintain(
    call: Call,
    vacuum: Annotated[
        bool, typer.Option("--vacuum", help="Delete files that were replaced longer ago than Delta keeps them.")
    ] = False,
) -> None:
    """Put the small files of all tables together; with --vacuum, say how far back they can still be had."""
    with call.opened() as pipeline:
        maintained = pipeline.maintain(vacuum=vacuum)
        rows = [[t.table, t.files_before, t.files, t.left, t.since] for t in maintained]
        columns = ["table", "files before", "files", "left", *(["readable since"] if vacuum else [])]
        call.screen.table("Files", columns, [row[: len(columns)] for row in rows])
        call.screen.result({"tables": [vars(t) for t in maintained]})


@command(app, "as-of")
def as_of(
    call: Call,
    table: Annotated[str, typer.Argument(help="DATABASE.TABLE; without it, all tables together.")] = "",
    timestamp: Annotated[str | None, typer.Option(help="A time with its zone, 2026-01-31T12:00:00+00:00.")] = None,
    gtid: Annotated[str | None, typer.Option(help="The moment after a transaction, or a GTID set.")] = None,
    position: Annotated[str | None, typer.Option(help="A position of the binlog, FILE:POS.")] = None,
    rows: Annotated[int, typer.Option(min=0, help="How many rows of a table to show: those that changed last.")] = 20,
) -> None:
    """What silver's tables held at a moment of the source; without a moment, how far back each can be had."""
    with call.opened() as pipeline:
        if timestamp is None and gtid is None and position is None:
            reach = pipeline.reach()
            call.screen.table("From where on", ["table", "from"], [[t, str(r or "not yet")] for t, r in reach.items()])
            call.screen.result({"tables": {t: None if r is None else vars(r) for t, r in reach.items()}})
            return
        if table:
            frames = {table: pipeline.as_of(table, timestamp=timestamp, gtid=gtid, position=position)}
        else:
            frames = pipeline.all_as_of(timestamp=timestamp, gtid=gtid, position=position)
        with pipeline.failures():
            counts = {name: frame.count() for name, frame in frames.items()}
            last = (
                frames[table].orderBy(pipeline.layout.own.seq, ascending=False).limit(rows).collect() if table else []
            )
        call.screen.table("As of that moment", ["table", "rows"], [[*one] for one in counts.items()])
        shown = [row.asDict(recursive=True) for row in last]
        if shown:
            call.screen.table(table, [*shown[0]], [[str(value) for value in row.values()] for row in shown])
        call.screen.result({"tables": counts, **({"rows": shown} if table else {})})


@command(app, interrupted=DOES_THE_REST)
def signal(
    call: Call,
    action: Annotated[
        Action,
        typer.Argument(
            help="Read tables again (snapshot); follow tables, too (add), or no more (drop); pass a statement; pause"
            " the pipeline; resume it; stop the run when all tables are read."
        ),
    ],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="For snapshot: tables, by names or patterns, as shop.orders; so for add and drop. For pass:"
            " FILE:POS, as an error names it."
        ),
    ] = None,
    where: Annotated[str, typer.Option(help="For snapshot: SQL that says of which rows, as \"status = 'paid'\".")] = "",
) -> None:
    """Ask something of the pipeline: of the current run or of the next one."""
    request = Request(action, tuple(what or ()), where)
    with call.opened() if where else nullcontext(call.pipeline()) as pipeline:
        answered = answer(pipeline, request)
    call.screen.say(answered.sentence)
    call.screen.result(answered.data)


@command(app, interrupted=DOES_THE_REST)
def reset(
    call: Call,
    keep_tables: Annotated[
        bool, typer.Option("--keep-tables", help="Delete the checkpoints alone: all tables are read again, in place.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question.")] = False,
) -> None:
    """Delete the checkpoints and tables of this pipeline, to begin again; says what they are, and asks."""
    if call.screen.as_json and not yes:
        raise codes.COMMAND_MISUSED.error("reset --json asks nobody", hint="add --yes to delete without a question")
    with call.opened() as pipeline, pipeline.resetting(keep_tables=keep_tables) as plan:
        rows = [[d.kind, d.where, "" if d.rows is None else f"{d.rows:,}", f"{d.size:,}"] for d in plan.deletions]
        call.screen.table("To be deleted", ["what", "where", "rows", "bytes"], rows)
        question = f"Delete these {len(rows)} of the pipeline {pipeline.config.name}? The source is not touched."
        if plan.deletions and not yes and not _confirmed(question):
            raise codes.COMMAND_MISUSED.error("nothing was deleted", hint="answer y, or give --yes")
        plan.execute()
    call.screen.say(f"deleted {len(rows)} of {len(rows)}; the next run begins again")
    call.screen.result({"deleted": [d.to_json() for d in plan.deletions], "kept_tables": keep_tables})


@command(app, interrupted=DOES_THE_REST)
def redact(
    call: Call,
    tables: Annotated[
        list[str] | None, typer.Argument(help="Names or patterns, as shop.orders; all by default.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Redact without a question.")] = False,
) -> None:
    """Hide, in what bronze and silver hold already, the columns that the file masks or excludes by now.

    Bronze's rows are written again, and silver's tables built again from them. Exit code 1: a table could not be
    redacted, or not all of it; its line says why. The files from before hold the values until `maintain --vacuum`.
    """
    if call.screen.as_json and not yes:
        raise codes.COMMAND_MISUSED.error("redact --json asks nobody", hint="add --yes to redact without a question")
    with call.opened() as pipeline, pipeline.redacting(tables or ()) as plan:
        rows = [[one.table, ", ".join(one.columns), one.silver, one.left] for one in plan.tables]
        if rows:
            call.screen.table("To be redacted", ["table", "columns", "built again", "cannot be"], rows)
        question = (
            f"Write these tables of the pipeline {pipeline.config.name} again? What is hidden cannot be had back."
        )
        if rows and not yes and not _confirmed(question):
            raise codes.COMMAND_MISUSED.error("nothing was redacted", hint="answer y, or give --yes")
        say = call.screen.paced()
        done = plan.execute(lambda table, n, of: say(f"{table}: {n:,} of {of:,} files of bronze"))
    for one in done:
        if one.left:
            call.screen.say(f"{one.table}: {one.left}", "left", "red")
    call.screen.say(f"{sum(not one.left for one in done)} of {len(done)} tables redacted")
    if any(one.files for one in done):
        call.screen.say(_OLD_FILES)
    call.screen.result({"redacted": [one.to_json() for one in done]})
    if any(one.left for one in done):
        raise typer.Exit(DIFFERENCE)


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # no answer, as where there is no terminal
        return False


if __name__ == "__main__":
    main()
