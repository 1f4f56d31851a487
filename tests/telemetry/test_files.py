"""The alert rules and the dashboard: by Prometheus' own promtool, and against the declaration of the metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.telemetry.declaration import METRICS, PIPELINE, PREFIX, Kind

pytestmark = pytest.mark.process
FOLDER = files("lakehouse_cdc.telemetry") / "files"
ALERTS = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))


def series() -> dict[str, set[str]]:
    """Every series that there may be, with its labels."""
    found: dict[str, set[str]] = {}
    for one in METRICS:
        parts = ("_bucket", "_sum", "_count") if one.kind is Kind.HISTOGRAM else ("",)
        for part in parts:
            found[one.prometheus + part] = {PIPELINE, *one.labels, *(["le"] if part == "_bucket" else [])}
    return found


def expressions() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*rules, *(one.replace("$__rate_interval", "5m").replace("$pipeline", ".*") for one in panels)]


@pytest.mark.parametrize("expression", expressions())
def test_what_an_expression_names_is_declared(expression: str) -> None:
    named = re.findall(rf"\b({PREFIX}_\w+)(?:\{{([^}}]*)\}})?", expression)
    assert named
    for name, matchers in named:
        assert set(re.findall(r"(\w+)=", matchers)) <= series()[name], name
    labels = {label for name, _ in named for label in series()[name]}
    for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert set(re.split(r",\s*", group)) <= labels


def test_the_command_writes_both(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["monitoring", str(tmp_path / "monitoring"), "--json"])
    assert done.exit_code == 0, done.output
    written = {path.name: path.read_text() for path in (tmp_path / "monitoring").iterdir()}
    assert written["alerts.yml"] == ALERTS
    assert json.loads(written["dashboard.json"]) == DASHBOARD
    assert len(json.loads(done.stdout)["files"]) == len(written) == 2


def promtool(*arguments: str | Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool, which comes with Prometheus, is not on the PATH")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(ALERTS)
    assert f"{ALERTS.count('alert:')} rules found" in promtool("check", "rules", tmp_path / "alerts.yml")
    rules = [{"record": f"panel:{n}", "expr": one} for n, one in enumerate(expressions())]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "panels.yml")


SHOP = '{pipeline="shop"}'
BRONZE = '{pipeline="shop",layer="bronze"}'
# alert: the series that raise it, each with its values of every minute, and the minute in which it is raised; then
# those that do not. Times of the past are below 0, since promtool's clock begins there
CASES: dict[str, tuple[dict[str, str], int, dict[str, str]]] = {
    "LakehouseCdcGone": ({f"lakehouse_cdc_up{SHOP}": "1x5 _x40"}, 20, {f"lakehouse_cdc_up{SHOP}": "1x60"}),
    "LakehouseCdcLag": (
        {f"lakehouse_cdc_lag_seconds{BRONZE}": "400x60"}, 11, {f"lakehouse_cdc_lag_seconds{BRONZE}": "200x60"},
    ),
    "LakehouseCdcNoBatch": (
        {f"lakehouse_cdc_last_batch_timestamp_seconds{BRONZE}": "0x60", f"lakehouse_cdc_lag_bytes{BRONZE}": "10x60",
         f"lakehouse_cdc_up{SHOP}": "1x60"}, 30,
        {f"lakehouse_cdc_last_batch_timestamp_seconds{BRONZE}": "0x60", f"lakehouse_cdc_lag_bytes{BRONZE}": "0x60",
         f"lakehouse_cdc_up{SHOP}": "1x60"},
    ),
    "LakehouseCdcJobLate": (
        {f"lakehouse_cdc_last_batch_timestamp_seconds{BRONZE}": "-90000x60", f"lakehouse_cdc_up{SHOP}": "0x60"}, 1,
        {f"lakehouse_cdc_last_batch_timestamp_seconds{BRONZE}": "-90000x60", f"lakehouse_cdc_up{SHOP}": "1x60"},
    ),
    "LakehouseCdcQuarantined": (
        {f"lakehouse_cdc_tables_quarantined{SHOP}": "1x60"}, 3, {f"lakehouse_cdc_tables_quarantined{SHOP}": "0x60"},
    ),
    "LakehouseCdcRetries": (
        {'lakehouse_cdc_retries_total{pipeline="shop",error_type="CDC-1001"}': "0+1x60"}, 20,
        {'lakehouse_cdc_retries_total{pipeline="shop",error_type="CDC-1001"}': "0 1 2x60"},
    ),
    "LakehouseCdcBinlogScarce": (
        {f"lakehouse_cdc_binlog_retention_headroom_seconds{SHOP}": "3600x60"}, 1,
        {f"lakehouse_cdc_binlog_retention_headroom_seconds{SHOP}": "1000000x60"},
    ),
    "LakehouseCdcBinlogGone": (
        {f"lakehouse_cdc_binlog_retention_headroom_seconds{SHOP}": "0x60"}, 1,
        {f"lakehouse_cdc_binlog_retention_headroom_seconds{SHOP}": "3600x60"},
    ),
    "LakehouseCdcDiffers": (
        {f"lakehouse_cdc_verify_differences{BRONZE}": "1x60"}, 1, {f"lakehouse_cdc_verify_differences{BRONZE}": "0x60"},
    ),
    "LakehouseCdcNotVerified": (
        {f"lakehouse_cdc_verify_timestamp_seconds{BRONZE}": "-700000x60"}, 1,
        {f"lakehouse_cdc_verify_timestamp_seconds{BRONZE}": "-600000x60"},
    ),
}  # fmt: skip


def test_each_alert_is_raised_and_not_without_need(tmp_path: Path) -> None:
    rules = {rule["alert"]: rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]}
    assert rules.keys() == CASES.keys()
    assert all({"summary", "description"} == rule["annotations"].keys() for rule in rules.values())
    (tmp_path / "alerts.yml").write_text(ALERTS)
    promql: list[dict[str, Any]] = []
    for name, (raised, minute, quiet) in CASES.items():
        for given, expected in ((raised, 1), (quiet, 0)):
            expression = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
            sample = [{"labels": "{}", "value": expected}]
            promql.append({
                "interval": "1m", "input_series": [{"series": one, "values": values} for one, values in given.items()],
                "promql_expr_test": [{"expr": expression, "eval_time": f"{minute}m", "exp_samples": sample}],
            })  # fmt: skip
    test = {"rule_files": [str(tmp_path / "alerts.yml")], "evaluation_interval": "1m", "tests": promql}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", tmp_path / "test.yml")
