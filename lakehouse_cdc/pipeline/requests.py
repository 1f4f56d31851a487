"""What may be asked of a pipeline, by the command `signal` or by a row of `<bronze>.signals`, and what it answers.

Each request may be repeated: what it asks for is a state, or that tables are read again as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_name import matches
from lakehouse_cdc.mysql.uncaptured import some
from lakehouse_cdc.schema.selection import Selection

if TYPE_CHECKING:
    from lakehouse_cdc.pipeline.reread_requests import RereadRequests

_HELP = "lakehouse-cdc signal --help says what each takes"


class Action(str, Enum):
    """What a pipeline can be asked."""

    SNAPSHOT = "snapshot"
    ADD = "add"
    DROP = "drop"
    PASS = "pass"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"

    @classmethod
    def of(cls, name: str) -> Action:
        """The action of that name. Raises ConfigError where there is none."""
        if name not in (one.value for one in cls):
            raise codes.COMMAND_MISUSED.error(
                f"there is no signal '{name}'", hint=f"one of {', '.join(one.value for one in cls)}"
            )
        return cls(name)


_TAKES = {
    Action.SNAPSHOT: "the tables to read",
    Action.ADD: "the tables to follow, too",
    Action.DROP: "the tables to leave out",
    Action.PASS: "the statements to pass, as FILE:POS",
}


@dataclass(frozen=True)
class Request:
    """One of the actions: `what` are patterns of tables, or positions; `where` is SQL, of a snapshot alone.

    Raises ConfigError where the action does not take them.
    """

    action: Action
    what: tuple[str, ...] = ()
    where: str = ""

    def __post_init__(self) -> None:
        takes = _TAKES.get(self.action)
        if bool(self.what) != (takes is not None):
            raise codes.COMMAND_MISUSED.error(f"{self.action.value} takes {takes or 'nothing more'}", hint=_HELP)
        if self.where and self.action is not Action.SNAPSHOT:
            raise codes.COMMAND_MISUSED.error(f"{self.action.value} takes no --where", hint=_HELP)


@dataclass(frozen=True)
class Answer:
    """That it was done: in a sentence, and as plain data."""

    sentence: str
    data: Mapping[str, Any]


def answer(pipeline: RereadRequests, request: Request) -> Answer:
    """Do what is asked, in the current run or the next. Raises ConfigError or DefiniteError where it cannot be done."""
    return _ANSWERS[request.action](pipeline, request)


def _snapshot(pipeline: RereadRequests, request: Request) -> Answer:
    if request.where:
        keys = pipeline.read_again_where(request.what, request.where)
        what = [f"{n:,} keys of {name}" for name, n in keys.items()]
        return Answer(read_again(what), {"read_again": [], "keys_read_again": keys})
    tables = pipeline.read_again(request.what)
    return Answer(read_again(tables), {"read_again": tables})


def read_again(what: list[str]) -> str:
    """The sentence for what is to be read again."""
    return f"to be read again by the current run or the next: {some(what)}"


def _add(pipeline: RereadRequests, request: Request) -> Answer:
    there = pipeline.source_tables()
    selection = _selection(pipeline, request.what)
    added: list[str] = []
    for pattern in request.what:
        names = [name for name in there if matches(name, pattern) and selection.matches(name)]
        if not names:
            raise codes.SELECTION_UNMATCHED.error(
                f"{pattern} adds no table that the source has",
                where=f"signal {request.action.value}",
                hint="name tables that are there, and that source.tables does not shut out by a pattern with !",
            )
        added += names
    for pattern in request.what:
        pipeline.signals.add(pattern)
    names = list(dict.fromkeys(added))
    return Answer(f"followed from the current run or the next on: {some(names)}", {"added": names})


def _drop(pipeline: RereadRequests, request: Request) -> Answer:
    tables = pipeline.followed(request.what)
    selection = _selection(pipeline, [f"!{pattern}" for pattern in request.what])
    if not any(map(selection.matches, pipeline.source_tables())):
        raise codes.SELECTION_UNMATCHED.error(
            "no table would be left",
            where=f"signal {request.action.value}",
            hint="name fewer, or let the pipeline rest: lakehouse-cdc signal -c pipeline.yml pause",
        )
    for pattern in request.what:
        pipeline.signals.leave_out(pattern)
    return Answer(
        f"left out from the current run or the next on, and kept as they are: {some(tables)}", {"dropped": tables}
    )


def _pass(pipeline: RereadRequests, request: Request) -> Answer:
    passed = pipeline.pass_statements(request.what)
    return Answer(
        f"the statement that ends at {', '.join(passed)} will be passed: it changes no captured table",
        {"passed": passed},
    )


def _pause(pipeline: RereadRequests, request: Request) -> Answer:
    pipeline.signals.pause()
    return Answer("the pipeline rests until signal resume", {"paused": pipeline.signals.paused})


def _resume(pipeline: RereadRequests, request: Request) -> Answer:
    pipeline.signals.resume()
    return Answer("the pipeline continues", {"paused": pipeline.signals.paused})


def _stop(pipeline: RereadRequests, request: Request) -> Answer:
    pipeline.signals.stop()
    return Answer(
        "the run, this one or the next, ends when all tables are read", {"stopping": pipeline.signals.stopping}
    )


def _selection(pipeline: RereadRequests, asked: Collection[str]) -> Selection:
    """What is selected with further patterns, each in place of what was asked for before about the same one."""
    about = {pattern.removeprefix("!") for pattern in asked}
    before = [pattern for pattern in pipeline.signals.patterns if pattern.removeprefix("!") not in about]
    return Selection([*pipeline.given.source.tables, *before, *asked])


_ANSWERS: Mapping[Action, Callable[[RereadRequests, Request], Answer]] = {
    Action.SNAPSHOT: _snapshot, Action.ADD: _add, Action.DROP: _drop, Action.PASS: _pass,
    Action.PAUSE: _pause, Action.RESUME: _resume, Action.STOP: _stop,
}  # fmt: skip
