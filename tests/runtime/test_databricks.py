"""Where Databricks runs us: its session is taken as it is, and is not stopped; no log is written beside checkpoints."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.cli.command import Call
from lakehouse_cdc.cli.show import Screen
from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.runtime import session
from lakehouse_cdc.runtime.databricks import brought_session

CONFIG = """\
name: shop
source: {url: "mysql://cdc@127.0.0.1:1", tables: ["shop.*"]}
target: {path: lakehouse, bronze: bronze}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yml"
    path.write_text(CONFIG)
    return path


def test_its_session_needs_no_setting_of_ours_and_goes_on(
    spark: SparkSession, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "EXTENSION", "none.that.is.set")  # as there, where Delta is built in
    with Call(Screen(), config, ()).opened() as pipeline, pytest.raises(DefiniteError, match="without Delta"):
        _ = pipeline.spark
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19")
    with Call(Screen(), config, ()).opened() as pipeline:
        assert pipeline.spark is spark
    assert spark.range(3).count() == 3


def test_its_log_is_left_alone(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19")
    before = list(logging.getLogger().handlers)
    with Call(Screen(), config, ()).opened():
        assert logging.getLogger().handlers == before
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION")
    with Call(Screen(), config, ()).opened():
        assert logging.getLogger().handlers != before


def test_elsewhere_none_is_brought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    assert brought_session() is None
