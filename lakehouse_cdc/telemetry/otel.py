"""Metrics to OpenTelemetry: the same declarations as instruments of a meter.

Where the process has set a meter provider, as `opentelemetry-instrument` does, that is used, and it stays the
process's own. Else one is made that pushes by OTLP over HTTP, and is set up by the variables that OpenTelemetry
defines: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_METRIC_EXPORT_INTERVAL, OTEL_RESOURCE_ATTRIBUTES.
What it has at the end of the run is pushed then.

Source: "OpenTelemetry Environment Variable Specification", "OpenTelemetry Protocol Exporter".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.telemetry.declaration import COUNTER, GAUGE, METRICS, PIPELINE, PREFIX, Measurement, Metric
from lakehouse_cdc.telemetry.events import Event

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

_LAST_MILLISECONDS = 4_000
_SERVICE = "lakehouse-cdc"


class OtelOutput:
    """Instruments of `provider`, or of the process's own, or of a new one (see the module).

    Raises ModuleNotFoundError where the extra `otel` is not installed.
    """

    name = "OpenTelemetry"

    def __init__(self, pipeline: str, provider: MeterProvider | None = None) -> None:
        self._pipeline = pipeline
        self._given = provider or _of_process()
        self._made = _pushing() if self._given is None else None
        meter = (self._given or self._made).get_meter(PREFIX)  # type: ignore[union-attr]
        self._instruments = {metric: _instrument(meter, metric) for metric in METRICS}

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        """See `port.Output`."""
        for one in measured:
            labels = dict(zip((PIPELINE, *one.metric.labels), (self._pipeline, *one.labels), strict=True))
            instrument = self._instruments[one.metric]
            if one.metric.kind is COUNTER:
                instrument.add(one.value, labels)
            elif one.metric.kind is GAUGE:
                instrument.set(one.value, labels)
            else:
                instrument.record(one.value, labels)

    def close(self) -> None:
        """See `port.Output`."""
        if self._made is not None:
            self._made.shutdown(timeout_millis=_LAST_MILLISECONDS)


def _instrument(meter: Any, metric: Metric) -> Any:
    what = {"name": metric.otel, "unit": metric.unit, "description": metric.help}
    if metric.kind is COUNTER:
        return meter.create_counter(**what)
    if metric.kind is GAUGE:
        return meter.create_gauge(**what)
    return meter.create_histogram(**what, explicit_bucket_boundaries_advisory=metric.buckets)


def _of_process() -> MeterProvider | None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider

    provider = metrics.get_meter_provider()
    return provider if isinstance(provider, MeterProvider) else None


def _pushing() -> MeterProvider:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    resource = Resource({"service.name": _SERVICE}).merge(OTELResourceDetector().detect())
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return MeterProvider([reader], resource, shutdown_on_exit=False)
