"""The error of ours that a failure of Spark is, with where Spark's log lies."""

from __future__ import annotations

from pathlib import Path

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.lake.spark_errors import as_cdc_error


def translate(error: BaseException, log: Path | None = None) -> CdcError:
    """The error of ours inside `error`, or one with Spark's own first line, and where its log lies."""
    hint = f"see Spark's log {log}" if log is not None else "run again with --verbose for the whole trace"
    return as_cdc_error(error, hint=hint)
