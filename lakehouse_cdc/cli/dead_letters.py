"""`lakehouse-cdc dead-letters`: the messages of topics that were set aside."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse_cdc.cli.command import Call, command
from lakehouse_cdc.cli.exits import DOES_THE_REST
from lakehouse_cdc.errors import codes

app = typer.Typer(
    help="Messages of topics that were set aside: list them, try them once more, or drop them.", no_args_is_help=True
)
Reason = Annotated[str, typer.Option(help="Only those that were set aside for this reason.")]
Topic = Annotated[str, typer.Option(help="Only those of this topic.")]


@command(app, "list")
def list_letters(
    call: Call,
    reason: Reason = "",
    topic: Topic = "",
    limit: Annotated[int, typer.Option(min=0, help="How many of them to show.")] = 20,
) -> None:
    """How many messages were set aside, by reason, and the first of them."""
    from lakehouse_cdc.topics.letters import Selection

    with call.opened() as pipeline:
        selection = Selection(reason or None, topic or None)
        counts = pipeline.dead_letters.counts(selection)
        listed = pipeline.dead_letters.listed(selection, limit)
    call.screen.table("Set aside", ["reason", "messages"], [[*one] for one in counts.items()])
    for one in listed:
        call.screen.say(f"{one.topic}/{one.partition}/{one.offset}: {one.reason}: {one.text}")
    call.screen.result({"counts": counts, "letters": [one.to_json() for one in listed]})


@command(app, interrupted=DOES_THE_REST)
def retry(
    call: Call,
    reason: Reason = "",
    topic: Topic = "",
    accept_schema: Annotated[
        bool,
        typer.Option(
            "--accept-schema",
            help="Take changes of schemas by the names of columns: rows that are older hold NULL in new ones.",
        ),
    ] = False,
) -> None:
    """Try messages once more, under the file as it is now, while no run is active; what cannot be taken stays."""
    from lakehouse_cdc.topics.letters import Selection

    with call.opened() as pipeline:
        done = pipeline.dead_letters.retry(Selection(reason or None, topic or None), accepted=accept_schema)
    call.screen.say(f"{done.taken:,} of {done.tried:,} messages are in bronze; the next run applies them to silver")
    call.screen.result({"tried": done.tried, "taken": done.taken})


@command(app, interrupted=DOES_THE_REST)
def drop(
    call: Call,
    reason: Reason = "",
    topic: Topic = "",
    yes: Annotated[bool, typer.Option("--yes", help="Drop without a question.")] = False,
) -> None:
    """Delete messages that were set aside, for good."""
    from lakehouse_cdc.topics.letters import Selection

    if call.screen.as_json and not yes:
        raise codes.COMMAND_MISUSED.error("drop --json asks nobody", hint="add --yes to drop without a question")
    with call.opened() as pipeline:
        selection = Selection(reason or None, topic or None)
        n = sum(pipeline.dead_letters.counts(selection).values())
        if n and not yes and not typer.confirm(f"Drop {n:,} messages? They cannot be had back from here."):
            raise codes.COMMAND_MISUSED.error("nothing was dropped", hint="answer y, or give --yes")
        dropped = pipeline.dead_letters.drop(selection)
    call.screen.say(f"dropped {dropped:,} messages")
    call.screen.result({"dropped": dropped})
