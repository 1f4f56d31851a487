"""Metrics as Prometheus reads them: from an endpoint while a run lasts, or from a file, which outlives it.

The library of Prometheus writes and serves the text; here are the totals, which its collector takes as they are.

A file is for runs that end (`run --once`), as the textfile collector of node_exporter reads it. Counters continue
where the file of the run before ended, since a counter that begins again at 0 and ends where the last one did looks
as if nothing had happened. The file is replaced whole: a reader sees the old one or the new one.

Sources: "Exposition formats" of the Prometheus documentation; README of node_exporter, "Textfile Collector".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from lakehouse_cdc.telemetry.declaration import COUNTER, GAUGE, HISTOGRAM, METRICS, PIPELINE, Measurement, Metric
from lakehouse_cdc.telemetry.events import Ended, Event

_AGAIN = 30.0  # seconds before a port that could not be opened is tried again
_WRITE_EVERY = 5.0
_INFINITE = float("inf")
_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class Totals(Collector):
    """What the measurements of a pipeline add up to. Any thread may collect while another one adds."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline, self._lock = pipeline, threading.Lock()
        self._values: dict[Metric, dict[tuple[str, ...], list[float]]] = {metric: {} for metric in METRICS}

    def add(self, measured: Iterable[Measurement]) -> None:
        """Take measurements in."""
        with self._lock:
            for one in measured:
                self._add(one.metric, one.labels, one.value)

    def _add(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        series = self._values[metric]
        if metric.kind is GAUGE:
            series[labels] = [value]
        elif metric.kind is COUNTER:
            series.setdefault(labels, [0.0])[0] += value
        else:  # the sum, and how many are in each bucket
            bounds = (*metric.buckets, _INFINITE)
            held = series.setdefault(labels, [0.0] * (1 + len(bounds)))
            held[0] += value
            held[1 + next(i for i, bound in enumerate(bounds) if value <= bound)] += 1

    def continue_from(self, text: str) -> None:
        """Add what the counters and histograms of an earlier run came to. Raises ValueError for a text that is none."""
        samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels.get(PIPELINE) == self._pipeline
        }
        with self._lock:
            for metric in METRICS:
                if metric.kind is not GAUGE:
                    self._continue(metric, samples)

    def _continue(self, metric: Metric, samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> None:
        of_sum = metric.prometheus + ("_sum" if metric.kind is HISTOGRAM else "")
        for (name, pairs), value in samples.items():
            given = dict(pairs)
            if name != of_sum or given.keys() != {PIPELINE, *metric.labels}:
                continue
            held = [value]
            if metric.kind is HISTOGRAM:
                bounds = _bounds(metric)
                ends = [
                    samples.get((f"{metric.prometheus}_bucket", tuple(sorted({**given, "le": bound}.items()))), 0.0)
                    for bound in bounds
                ]
                held += [end - start for start, end in zip([0.0, *ends], ends, strict=False)]
            self._values[metric][tuple(given[label] for label in metric.labels)] = held

    def collect(self) -> Iterator[_Family]:
        """See `prometheus_client.registry.Collector`; metrics without a value are left out."""
        with self._lock:
            values = {metric: {labels: [*held] for labels, held in of.items()} for metric, of in self._values.items()}
        for metric, series in values.items():
            if series:
                yield self._family(metric, series)

    def _family(self, metric: Metric, series: dict[tuple[str, ...], list[float]]) -> _Family:
        name, names = metric.prometheus, [PIPELINE, *metric.labels]
        meaning = f"{metric.name.replace('_', ' ').removesuffix(' total')}: {metric.help}"
        family: Any
        if metric.kind is HISTOGRAM:
            family = HistogramMetricFamily(name, meaning, labels=names)
            bounds = _bounds(metric)
            for labels, (total, *counts) in sorted(series.items()):
                buckets = [*zip(bounds, accumulate(counts), strict=True)]
                family.add_metric([self._pipeline, *labels], buckets, total)
            return family  # type: ignore[no-any-return]
        family = (CounterMetricFamily if metric.kind is COUNTER else GaugeMetricFamily)(name, meaning, labels=names)
        for labels, (value,) in sorted(series.items()):
            family.add_metric([self._pipeline, *labels], value)
        return family  # type: ignore[no-any-return]


def _bounds(metric: Metric) -> list[str]:
    """The upper ends of a histogram's buckets, as the text has them."""
    return [str(floatToGoString(bound)) for bound in (*metric.buckets, _INFINITE)]  # type: ignore[no-untyped-call]


def _registry(totals: Totals) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(totals)
    return registry


class Endpoint:
    """An HTTP server with `/metrics`, while the run lasts. A port that is taken is tried again."""

    def __init__(self, pipeline: str, port: int, host: str) -> None:
        self.name = f"port {port} of {host}"
        self._totals, self._port, self._host = Totals(pipeline), port, host
        self._server: tuple[Any, threading.Thread] | None = None
        self._next_try = 0.0

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        """See `port.Output`. Raises OSError where the port cannot be opened."""
        self._totals.add(measured)
        if self._server is None and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + _AGAIN
            self._server = start_http_server(self._port, self._host, _registry(self._totals))

    def close(self) -> None:
        """See `port.Output`."""
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()


class TextFile:
    """A file that is replaced every few seconds, and at the end."""

    def __init__(self, pipeline: str, path: Path) -> None:
        self.name = str(path)
        self._pipeline, self._path, self._totals = pipeline, path, Totals(pipeline)
        self._written, self._continued = -_INFINITE, False

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        """See `port.Output`. Raises OSError where the file cannot be written."""
        if not self._continued:
            self._continued = True
            self._continue()
        self._totals.add(measured)
        if isinstance(event, Ended) or time.monotonic() - self._written >= _WRITE_EVERY:
            self._write()

    def _continue(self) -> None:
        if self._path.exists():
            try:
                self._totals.continue_from(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError):  # it will be replaced
                self._totals = Totals(self._pipeline)

    def _write(self) -> None:
        self._written = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(self._path), _registry(self._totals))

    def close(self) -> None:
        """See `port.Output`."""
        self._write()
