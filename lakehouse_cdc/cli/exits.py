"""Exit codes, and the one place where an error becomes one of them.

0 fine; 1 a check found a difference; 2 wrong use or configuration; 3 the source or a sink failed; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from lakehouse_cdc.errors import CdcError, ConfigError, codes

FINE, DIFFERENCE, WRONG_USE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

_BROUGHT = ("pyspark", "delta")  # by Databricks, and by the extra `local`


@contextmanager
def exit_codes(*, as_json: bool = False, verbose: bool = False) -> Iterator[None]:
    """Turn errors into one line on stderr (with `as_json` also one line of JSON on stdout) and an exit code."""
    try:
        yield
    except (CdcError, ModuleNotFoundError) as raised:
        error = _ours(raised)
        if verbose:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        if as_json:
            print(json.dumps(error.as_json()))
        raise typer.Exit(WRONG_USE if isinstance(error, ConfigError) else FAILED) from None
    except KeyboardInterrupt:
        print("interrupted; what was committed stays, and the next run continues from there", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _ours(error: CdcError | ModuleNotFoundError) -> CdcError:
    if isinstance(error, CdcError):
        return error
    if error.name not in _BROUGHT:
        raise error
    return codes.PACKAGE_MISSING.error(f"{error.name} is not installed", hint="pip install 'lakehouse-cdc[local]'")
