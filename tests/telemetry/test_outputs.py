"""No output fails or delays a run: each is broken in turn, and beside it another one has everything."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from lakehouse_cdc.cli.logs import json_lines
from lakehouse_cdc.telemetry import port
from lakehouse_cdc.telemetry.declaration import METRICS, Measurement
from lakehouse_cdc.telemetry.events import Begun, Ended, Event, Failed
from lakehouse_cdc.telemetry.otel import OtelOutput
from lakehouse_cdc.telemetry.outputs import outputs
from lakehouse_cdc.telemetry.port import Telemetry
from lakehouse_cdc.telemetry.prometheus import Endpoint, TextFile
from tests.telemetry.test_measuring import of_bronze

pytestmark = pytest.mark.unit
LOCAL = "127.0.0.1"
EVENTS: list[Event] = [Begun("1.0", "4.2.0"), *(of_bronze(n, {"shop.a": {"c": n}}) for n in range(1, 5)), Ended()]


class Kept:
    """An output that keeps what it gets."""

    name = "kept"

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.events: list[Event] = []
        self._before, self.closed = before, False

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        self._before()
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


class Broken(Kept):
    """One that raises."""

    name = "broken"

    def take(self, event: Event, measured: Sequence[Measurement]) -> None:
        raise RuntimeError("no space left\nand more")

    def close(self) -> None:
        raise RuntimeError("nor here")


def free_port() -> int:
    with socket.socket() as one:
        one.bind((LOCAL, 0))
        return int(one.getsockname()[1])


def _has(kept: Kept, n: int) -> bool:
    return len(kept.events) == n


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_fails_is_logged_once_and_the_others_have_everything(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    telemetry = Telemetry([Broken(), kept])
    for event in EVENTS:
        telemetry.saw(event)
    telemetry.close()
    assert kept.events == EVENTS
    assert kept.closed
    assert [record.getMessage() for record in caplog.records] == ["metrics to broken: no space left"]


def test_what_hangs_delays_nobody(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(port, "_MOST", 3)
    monkeypatch.setattr(port, "_LAST_SECONDS", 0.3)
    let_go = threading.Event()
    hanging, kept = Kept(let_go.wait), Kept()
    hanging.name = "hanging"
    telemetry = Telemetry([hanging, kept])
    began = time.monotonic()
    for n, event in enumerate(EVENTS, 1):
        telemetry.saw(event)
        wait_for(partial(_has, kept, n))  # its queue is short, too
    telemetry.close()
    assert time.monotonic() - began < 15.0
    assert kept.events == EVENTS
    assert "metrics to kept" not in caplog.text
    assert "events are lost, it hangs" in caplog.text
    let_go.set()


def test_what_cannot_be_measured_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    telemetry = Telemetry([kept])
    telemetry.saw(of_bronze(1, {"shop.a": {"c": "x"}}))  # type: ignore[dict-item]
    telemetry.saw(Ended())
    telemetry.close()
    assert kept.events == [Ended()]
    assert "Batch could not be measured" in caplog.text


def scrape(number: int) -> str:
    with urlopen(f"http://{LOCAL}:{number}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return str(answer.read().decode())


def test_the_endpoint_lasts_as_long_as_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_LAST_SECONDS", 60.0)  # a busy machine
    number = free_port()
    telemetry = Telemetry([Endpoint("shop", number, LOCAL)])
    for event in EVENTS[:-1]:
        telemetry.saw(event)

    def answers() -> bool:
        try:
            return 'lakehouse_cdc_rows_total{layer="bronze",op="c",pipeline="shop"} 10.0' in scrape(number)
        except OSError:
            return False

    wait_for(answers)
    assert 'lakehouse_cdc_up{pipeline="shop"} 1.0' in scrape(number)
    telemetry.close()
    with pytest.raises(OSError, match="refused"):
        scrape(number)


def test_a_port_that_is_taken_is_logged_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lakehouse_cdc.telemetry.prometheus._AGAIN", 0.0)
    with socket.socket() as taken:
        taken.bind((LOCAL, 0))
        taken.listen()
        number = taken.getsockname()[1]
        telemetry = Telemetry([Endpoint("shop", number, LOCAL)])
        telemetry.saw(EVENTS[0])
        wait_for(lambda: f"metrics to port {number} of {LOCAL}" in caplog.text)
        assert "Address already in use" in caplog.text
    telemetry.saw(EVENTS[1])
    wait_for(lambda: _reachable(number))
    assert 'lakehouse_cdc_up{pipeline="shop"} 1.0' in scrape(number)  # what was measured before is there
    telemetry.close()


def _reachable(number: int) -> bool:
    try:
        scrape(number)
    except OSError:
        return False
    return True


def test_a_file_is_whole_at_any_time_and_continues(tmp_path: Path) -> None:
    path = tmp_path / "below" / "shop.prom"
    for runs in (1, 2):
        telemetry = Telemetry([TextFile("shop", path)])
        for event in EVENTS:
            telemetry.saw(event)
        telemetry.close()
        text = path.read_text()
        assert f'lakehouse_cdc_rows_total{{layer="bronze",op="c",pipeline="shop"}} {10.0 * runs}' in text
        assert 'lakehouse_cdc_up{pipeline="shop"} 0.0' in text
        assert [one.name for one in path.parent.iterdir()] == ["shop.prom"]


@pytest.mark.parametrize("text", ["", "garbage {", 'lakehouse_cdc_rows_total{pipeline="shop"} 3\n', "\x00\xff"])
def test_a_file_of_somebody_else_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "shop.prom"
    path.write_text(text)
    telemetry = Telemetry([TextFile("shop", path)])
    for event in EVENTS:
        telemetry.saw(event)
    telemetry.close()
    assert 'lakehouse_cdc_rows_total{layer="bronze",op="c",pipeline="shop"} 10.0' in path.read_text()


def test_a_file_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in its way")
    telemetry = Telemetry([TextFile("shop", tmp_path / "file" / "shop.prom")])
    telemetry.saw(EVENTS[0])
    telemetry.close()
    assert "metrics to" in caplog.text


def test_opentelemetry_gets_the_same() -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry([OtelOutput("shop", MeterProvider([reader]))])
    for event in [*EVENTS, Failed("CDC-1001")]:
        telemetry.saw(event)
    telemetry.close()
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[tuple[Any, ...], Any] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for one in metric.data.data_points:
            value = one.value if isinstance(one, NumberDataPoint) else (one.count, one.sum)
            series = (metric.name, metric.unit, *sorted((one.attributes or {}).items()))
            found[series] = value
    shop = ("pipeline", "shop")
    assert found["lakehouse_cdc.rows", "{row}", ("layer", "bronze"), ("op", "c"), shop] == 10
    assert found["lakehouse_cdc.up", "", shop] == 0
    assert found["lakehouse_cdc.retries", "{failure}", ("error_type", "CDC-1001"), shop] == 1
    count, total = found["lakehouse_cdc.batch_duration_seconds", "s", ("layer", "bronze"), shop]
    assert (count, total) == (4, pytest.approx(1.2))
    assert {name for name, *_ in found} <= {one.otel for one in METRICS}


@pytest.fixture
def collector() -> Iterator[tuple[int, list[bytes]]]:
    """A server that takes what is pushed and never answers."""
    got: list[bytes] = []
    with socket.socket() as server:
        server.bind((LOCAL, 0))
        server.listen()

        def take() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                got.append(connection.recv(65536))

        threading.Thread(target=take, daemon=True).start()
        yield server.getsockname()[1], got


def test_a_collector_that_never_answers_delays_the_end_by_a_moment_only(
    collector: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    number, got = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{LOCAL}:{number}")
    monkeypatch.setattr(port, "_LAST_SECONDS", 1.0)
    telemetry = Telemetry([*outputs("shop", port=None, host="", file=None, otel=True)])
    began = time.monotonic()
    for event in EVENTS:
        telemetry.saw(event)
    telemetry.close()
    assert time.monotonic() - began < 15.0
    wait_for(lambda: bool(got))
    assert b"POST /v1/metrics" in got[0]


def test_without_the_extra_that_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    assert [*outputs("shop", port=None, host="", file=None, otel=True)] == []
    assert "pip install 'opentelemetry-" in caplog.text


def test_a_batch_is_a_line_of_json() -> None:
    stream = StringIO()
    with json_lines(stream):
        telemetry = Telemetry([*outputs("shop", port=None, host="", file=None, otel=False)])
        telemetry.saw(EVENTS[0])
        telemetry.saw(of_bronze(7, {"shop.a": {"s": 1, "c": 2}, "shop.b": {"r": 5}}))
        telemetry.close()
        logging.getLogger("lakehouse_cdc.anything").warning("a %s", "warning")
        logging.getLogger("lakehouse_cdc.anything").info("not this")
    batch, warning = map(json.loads, stream.getvalue().splitlines())
    assert batch == {
        "event": "batch", "level": "INFO", "time": "1970-01-01T00:16:47.000+00:00", "pipeline": "shop",
        "layer": "bronze", "batch": 7, "bronze_version": 7, "file": "bin.000002", "pos": 700, "epoch": 1,
        "seconds": 0.3, "lag_seconds": None, "rows": 7, "ops": {"c": 2, "r": 5},
        "tables": {"shop.a": 2, "shop.b": 5},
    }  # fmt: skip
    assert (warning["event"], warning["level"], warning["message"]) == ("log", "WARNING", "a warning")


def test_nobody_listens_and_nothing_is_made() -> None:
    assert [*outputs("shop", port=None, host="", file=None, otel=False)] == []
    assert not Telemetry([]).wanted
