"""Exit codes, and the one place where an error becomes one of them.

0 fine; 1 a check found a difference; 2 wrong use or configuration; 3 the source or a sink failed; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from lakehouse_cdc.cli.as_called import as_called
from lakehouse_cdc.errors import CdcError, ConfigError, codes
from lakehouse_cdc.runtime.extras import installing

FINE, DIFFERENCE, WRONG_USE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

NOTHING_CHANGED = "nothing was changed"
CONTINUES = "what was committed stays, and the next run continues from there"
DOES_THE_REST = "what was done stays, and the same command does the rest"
_BROUGHT = ("pyspark", "delta")  # by Databricks, and by the extra `local`


@contextmanager
def exit_codes(
    *, as_json: bool = False, verbose: bool = False, interrupted: str = NOTHING_CHANGED, file: Path | None = None
) -> Iterator[None]:
    """Turn errors into one line on stderr (with `as_json` also one line of JSON on stdout) and an exit code.

    `interrupted` is said after Ctrl-C: what became of what the command had done. `file` is the pipeline's, if any.
    """
    try:
        yield
    except (CdcError, ModuleNotFoundError) as raised:
        error = _ours(raised)
        if verbose:
            traceback.print_exc()
        what, to_do = (as_called(sentence, file) for sentence in error.sentences)
        _say(f"error: {what}", to_do)
        if as_json:
            print(json.dumps(error.as_json()))
        raise typer.Exit(WRONG_USE if isinstance(error, ConfigError) else FAILED) from None
    except KeyboardInterrupt:
        _say(f"interrupted; {interrupted}")
        raise typer.Exit(INTERRUPTED) from None


def _say(*sentences: str) -> None:
    """To stderr: on a terminal each on lines of its own, wrapped between words; else all on one."""
    if sys.stderr.isatty():
        Console(stderr=True, highlight=False).print(Text("\n".join(sentences)))
    else:
        print(*sentences, file=sys.stderr)


def _ours(error: CdcError | ModuleNotFoundError) -> CdcError:
    if isinstance(error, CdcError):
        return error
    if error.name not in _BROUGHT:
        raise error
    return codes.PACKAGE_MISSING.error(f"{error.name} is not installed", hint=installing("local"))
