"""What the commands have in common: the options that all of them take, errors as exit codes, and the pipeline.

A function with a first parameter `call: Call` or `screen: Screen` becomes a command by `@command(app)`. It gets the
object; the command line gets `--json` and `--verbose`, and for a `Call` also `--config` and `--set`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from lakehouse_cdc.cli.exits import NOTHING_CHANGED, exit_codes
from lakehouse_cdc.cli.logs import log_to
from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.runtime.databricks import on_databricks
from lakehouse_cdc.runtime.preparing import heard_by

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The pipeline's configuration file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="In place of what the file says, as source.url=mysql://cdc@db; KEY= leaves it.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON on stdout; text for people goes to stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="With an error, its whole trace.")]
_Function = Callable[..., None]


@dataclass(frozen=True)
class Call:
    """One call of a command for a pipeline."""

    screen: Screen
    file: Path
    settings: tuple[str, ...]

    def pipeline(self) -> Pipeline:
        """The pipeline of the file; no session is started."""
        return Pipeline.from_yaml(self.file, settings=self.settings)

    @contextmanager
    def opened(self) -> Iterator[Pipeline]:
        """The same; what its libraries log goes to its log, and its session ends with the block."""
        pipeline = self.pipeline()
        if not on_databricks():  # there the job's own log has it, and a volume's files cannot be appended to
            log_to(pipeline.log)
        with closing(pipeline):
            yield pipeline


def command(
    app: typer.Typer, name: str | None = None, *, interrupted: str = NOTHING_CHANGED
) -> Callable[[_Function], _Function]:
    """Add a function to the commands of `app`; see the module. `interrupted` is said after Ctrl-C."""

    def added(function: _Function) -> _Function:
        hints = get_type_hints(function, include_extras=True)
        first, *own = inspect.signature(function).parameters.values()
        of_pipeline = hints[first.name] is Call

        def called(**given: Any) -> None:
            as_json, verbose = given.pop("as_json"), given.pop("verbose")
            file, settings = given.pop("config", None), given.pop("settings", None)
            screen = Screen(as_json=as_json, file=file)
            ending = exit_codes(as_json=as_json, verbose=verbose, interrupted=interrupted, file=file)
            with ending, heard_by(screen.say, screen.passing):
                function(Call(screen, file, tuple(settings or ())) if of_pipeline else screen, **given)

        file_options = [_parameter("config", ConfigFile, inspect.Parameter.empty)] if of_pipeline else []
        shared = [_parameter("settings", Settings, None)] if of_pipeline else []
        shared += [_parameter("as_json", Json, False), _parameter("verbose", Verbose, False)]
        typed = [one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        parameters = [*file_options, *typed, *shared]
        called.__name__, called.__doc__ = function.__name__, function.__doc__
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name)(called)
        return function

    return added


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
