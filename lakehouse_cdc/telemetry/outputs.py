"""The outputs that a configuration asks for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.telemetry.batch_log import BatchLog, log
from lakehouse_cdc.telemetry.port import Output

_log = logging.getLogger(__name__)


def outputs(pipeline: str, *, port: int | None, host: str, file: Path | None, otel: bool) -> Iterator[Output]:
    """Those of the keys `target.metrics_*`, and the log, where somebody listens to it.

    What cannot be had is logged, with what to do. Libraries are imported by those who want them.
    """
    if port is not None or file is not None:
        from lakehouse_cdc.telemetry.prometheus import Endpoint, TextFile
    if port is not None:
        yield Endpoint(pipeline, port, host)
    if file is not None:
        yield TextFile(pipeline, file)
    if log.isEnabledFor(logging.INFO):
        yield BatchLog(pipeline)
    if otel:
        from lakehouse_cdc.telemetry.otel import OtelOutput

        try:
            yield OtelOutput(pipeline)
        except Exception as error:
            hint = f"; {installing('otel')}" if isinstance(error, ModuleNotFoundError) else ""
            _log.warning("there are no metrics to OpenTelemetry: %s%s", error, hint)
