"""What the report of a run gets reaches the outputs that its configuration asks for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from lakehouse_cdc.bronze.sink import BronzeBatch
from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.source_lag import Lag
from lakehouse_cdc.model.verification import Verification
from lakehouse_cdc.ops.source_watch import Look, SourceWatch
from lakehouse_cdc.ops.verify_history import VerifyWatch, note
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import RunReport
from lakehouse_cdc.silver.apply.stream import SilverBatch
from lakehouse_cdc.telemetry.events import Ended
from lakehouse_cdc.telemetry.port import Telemetry
from tests.telemetry.test_outputs import LOCAL, free_port, scrape, wait_for

pytestmark = pytest.mark.unit


class Watch:
    """Looks at no source."""

    def __init__(self) -> None:
        self.point: SourcePoint | None = None

    def moved(self, point: SourcePoint) -> None:
        self.point = point

    def tick(self) -> Look | None:
        if self.point is None:
            return None
        return Look(time.time(), self.point, Lag(0, 0.0), Headroom(60.0, "age"), [(self.point.file, self.point.pos)])


def telemetry(home: Path, **target: Any) -> Telemetry:
    config = {
        "name": "shop", "source": {"url": "mysql://cdc@db:3306", "tables": ["shop.*"]},
        "target": {"path": "lakehouse", "bronze": "bronze", "silver": "silver", **target},
    }  # fmt: skip
    return Pipeline(PipelineConfig.parse(config), home=home).telemetry()


def test_from_the_report_to_the_port_and_the_file(tmp_path: Path) -> None:
    number, report = free_port(), RunReport()
    report.telemetry = telemetry(tmp_path, metrics_port=number, metrics_file="shop.prom")
    report.watch = cast(SourceWatch, Watch())
    report.verifications = VerifyWatch(tmp_path)
    note(tmp_path, Verification(900.0, "silver", 10, 0.1, {"shop.a": 3}))
    point = SourcePoint(1, "uuid", "bin.000002", 400, commit_ts=int((time.time() - 5) * 1e6))
    report.bronze(BronzeBatch(0, 1, point, {"shop.a": {"s": 1, "c": 2}}, 0.5))
    report.silver(SilverBatch(0, 1, point, ("shop.a",), {"shop.b": "why"}, None, 1.5))
    report.tick()
    report.restarted(codes.CONNECTION_LOST.error("away"))

    def served() -> str:
        try:
            return scrape(number)
        except OSError:
            return ""

    wait_for(lambda: "retries" in served())
    lines = set(served().splitlines())
    assert {
        'lakehouse_cdc_rows_total{layer="bronze",op="c",pipeline="shop"} 2.0',
        'lakehouse_cdc_rows_total{layer="silver",op="c",pipeline="shop"} 2.0',
        'lakehouse_cdc_lag_bytes{layer="bronze",pipeline="shop"} 0.0',
        'lakehouse_cdc_lag_bytes{layer="silver",pipeline="shop"} 0.0',
        'lakehouse_cdc_tables_quarantined{pipeline="shop"} 1.0',
        'lakehouse_cdc_table_quarantined{pipeline="shop",table="shop.b"} 1.0',
        'lakehouse_cdc_verify_differences{layer="silver",pipeline="shop"} 3.0',
        f'lakehouse_cdc_retries_total{{error_type="{codes.CONNECTION_LOST.label}",pipeline="shop"}} 1.0',
        'lakehouse_cdc_batch_duration_seconds_sum{layer="silver",pipeline="shop"} 1.5',
    } <= lines
    report.telemetry.saw(Ended())
    report.telemetry.close()
    text = (tmp_path / "shop.prom").read_text()
    assert {line for line in lines if "_total{" in line} <= set(text.splitlines())
    assert report.batches == {"bronze": 1, "silver": 1}


def test_what_is_not_asked_for_is_not_there(tmp_path: Path) -> None:
    assert not telemetry(tmp_path).wanted
    assert not telemetry(tmp_path, metrics=True, metrics_host=LOCAL).wanted
