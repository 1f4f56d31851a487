"""`bundle status`: which jobs and pipelines are the bundle's, how their last runs ended, and the exit code for it.

Calls are checked against the SDK's real classes by `create_autospec`; and the real SDK asks a loopback server that
answers in the REST API's JSON, so that field names and paging are the SDK's own affair.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.platform import NotFound, PermissionDenied
from databricks.sdk.service.jobs import BaseJob, BaseRun, JobsAPI, JobSettings, Run, RunOutput
from databricks.sdk.service.pipelines import (
    GetPipelineResponse,
    PipelineEvent,
    PipelinesAPI,
    PipelineStateInfo,
)
from typer.testing import CliRunner, Result

from lakehouse_cdc.bundle.runs import LastRun, last_runs
from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import ConfigError, TransientError, codes
from lakehouse_cdc.runtime import workspace
from tests.remedies import remedy
from tests.support.commands import call
from tests.support.rest import Answer, Rest, rest

BUNDLE = "lakehouse-cdc-shop"
NOON = 1767268800000  # 2026-01-01T12:00:00Z, in milliseconds


def run(code: str, *, message: str = "", began: int = NOON, seconds: int = 60) -> dict[str, Any]:
    """A run as the API tells it; without a code it goes on."""
    status: dict[str, Any] = {"state": "RUNNING"}
    if code:
        details = {"code": code, "type": "SUCCESS" if code == "SUCCESS" else "CLIENT_ERROR", "message": message}
        status = {"state": "TERMINATED", "termination_details": details}
    ended = began + seconds * 1000 if code else 0
    return {"run_id": began, "start_time": began, "end_time": ended, "status": status, "run_page_url": "https://w/#1"}


def job(number: int, name: str) -> dict[str, Any]:
    return {"job_id": number, "settings": {"name": name}}


def client(
    jobs: dict[str, list[dict[str, Any]]], pipelines: dict[str, list[dict[str, str]]] | None = None
) -> WorkspaceClient:
    """A client by the real one's specification: jobs and their runs, pipelines and their updates, newest first."""
    found: Any = create_autospec(WorkspaceClient, instance=True)
    found.jobs = create_autospec(JobsAPI, instance=True)
    found.pipelines = create_autospec(PipelinesAPI, instance=True)
    runs = dict(enumerate(jobs.values()))
    found.jobs.list.side_effect = lambda: iter(
        [BaseJob(job_id=n, settings=JobSettings(name=name)) for n, name in enumerate(jobs)]
    )
    found.jobs.list_runs.side_effect = lambda job_id, limit: iter([BaseRun.from_dict(one) for one in runs[job_id]])
    listed = [
        PipelineStateInfo.from_dict({"pipeline_id": name, "name": name, "latest_updates": updates})
        for name, updates in (pipelines or {}).items()
    ]
    found.pipelines.list_pipelines.side_effect = lambda: iter(listed)
    found.pipelines.get.side_effect = lambda pipeline_id: GetPipelineResponse(cause=f"why {pipeline_id}\n failed")
    found.jobs.get_run.side_effect = lambda run_id: Run(tasks=[])
    found.pipelines.list_pipeline_events.side_effect = lambda *_, **__: iter([])
    made: WorkspaceClient = found
    return made


def only(found: list[LastRun]) -> LastRun:
    [one] = found
    return one


@pytest.mark.parametrize(
    ("runs", "result", "failed", "running"),
    [
        ([], "", False, False),
        ([run("")], "", False, True),
        ([run("SUCCESS"), run("RUN_EXECUTION_ERROR")], "SUCCESS", False, False),
        ([run("RUN_EXECUTION_ERROR", message="exit\n3"), run("SUCCESS")], "RUN_EXECUTION_ERROR", True, False),
        ([run(""), run("DRIVER_ERROR")], "DRIVER_ERROR", True, True),
        ([run("SKIPPED"), run("MAX_CONCURRENT_RUNS_EXCEEDED"), run("SUCCESS")], "SUCCESS", False, False),
        ([run("USER_CANCELED"), run("SUCCESS")], "USER_CANCELED", False, False),
        ([run("CANCELED")], "CANCELED", True, False),
        ([run("OF_TOMORROW")], "UNKNOWN", True, False),
        ([run("SUCCESS_WITH_FAILURES")], "SUCCESS_WITH_FAILURES", True, False),
    ],
)
def test_the_last_run_that_ended_counts(runs: list[dict[str, Any]], result: str, failed: bool, running: bool) -> None:
    found = only(last_runs(client({f"{BUNDLE} ingest": runs}), BUNDLE))
    assert (found.result, found.failed, found.running) == (result, failed, running)
    if result == "RUN_EXECUTION_ERROR":
        assert (found.why, found.seconds, found.url) == ("exit 3", 60.0, "https://w/#1")
        assert found.to_json()["began"] == "2026-01-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("states", "result", "failed", "running"),
    [
        (["COMPLETED", "FAILED"], "COMPLETED", False, False),
        (["RUNNING", "FAILED"], "FAILED", True, True),
        (["CANCELED"], "CANCELED", False, False),
        (["OF_TOMORROW"], "UNKNOWN", True, False),
        ([], "", False, False),
    ],
)
def test_so_does_the_last_update_of_a_pipeline(states: list[str], result: str, failed: bool, running: bool) -> None:
    updates = [{"state": state, "creation_time": "2026-01-01T12:00:00Z"} for state in states]
    found = only(last_runs(client({}, {f"{BUNDLE} declared": updates}), BUNDLE))
    assert (found.kind, found.result, found.failed, found.running) == ("pipeline", result, failed, running)
    assert found.why == (f"why {BUNDLE} declared failed" if failed else "")


OURS = "CDC-2001 server_unreachable: cannot connect [db:3306] Hint: check the address"
SAYS = "Task run failed with message: Workload failed, see run output for details"


def task(number: int, code: str) -> dict[str, Any]:
    return {**run(code), "run_id": number, "task_key": f"t{number}"}


@pytest.mark.parametrize(
    ("tasks", "outputs", "why"),
    [
        ([task(1, "RUN_EXECUTION_ERROR")], {1: {"logs": f"a line\nerror: {OURS}\n", "error": "SystemExit: 3"}}, OURS),
        ([task(1, "RUN_EXECUTION_ERROR")], {1: {"logs": f"error: {OURS} 1\nerror: {OURS} 2"}}, f"{OURS} 2"),
        ([task(1, "RUN_EXECUTION_ERROR")], {1: {"logs": "", "error": "NameError:\n x"}}, "NameError: x"),
        ([task(1, "SUCCESS"), task(2, "RUN_EXECUTION_ERROR"), task(3, "CANCELED")], {2: {"error": "x"}}, "x"),
        ([task(1, "RUN_EXECUTION_ERROR"), task(2, "RUN_EXECUTION_ERROR")], {1: {"error": "x"}, 2: {"error": "x"}}, "x"),
        ([task(1, "DRIVER_ERROR")], {1: {}}, SAYS),
        ([], {}, SAYS),
    ],
)
def test_the_cause_is_what_the_task_printed(
    tasks: list[dict[str, Any]], outputs: dict[int, dict[str, Any]], why: str
) -> None:
    workspace: Any = client({f"{BUNDLE} ingest": [run("RUN_EXECUTION_ERROR", message=SAYS)]})
    workspace.jobs.get_run.side_effect = lambda run_id: Run.from_dict({"run_id": run_id, "tasks": tasks})
    outputs_of = {number: RunOutput.from_dict(one) for number, one in outputs.items()}
    none = NotFound("the run has none", error_code="RESOURCE_DOES_NOT_EXIST")
    workspace.jobs.get_run_output.side_effect = lambda run_id: _raised(outputs_of.get(run_id, none))
    assert only(last_runs(workspace, BUNDLE)).why == why


def _raised(output: RunOutput | NotFound) -> RunOutput:
    if isinstance(output, NotFound):
        raise output
    return output


def test_an_output_that_may_not_be_read_leaves_what_is_known() -> None:
    workspace: Any = client(
        {f"{BUNDLE} ingest": [run("RUN_EXECUTION_ERROR", message=SAYS)]},
        {f"{BUNDLE} declared": [{"state": "FAILED", "update_id": "u"}]},
    )
    workspace.jobs.get_run.side_effect = PermissionDenied("no", error_code="PERMISSION_DENIED")
    workspace.pipelines.list_pipeline_events.side_effect = PermissionDenied("no", error_code="PERMISSION_DENIED")
    assert [one.why for one in last_runs(workspace, BUNDLE)] == [SAYS, f"why {BUNDLE} declared failed"]


def event(update: str, message: str, exception: str = "") -> PipelineEvent:
    error = {"error": {"exceptions": [{"message": exception}]}} if exception else {}
    return PipelineEvent.from_dict({"origin": {"update_id": update}, "message": message, "level": "ERROR", **error})


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([event("u", "Update u is FAILED."), event("u", "Flow f has FAILED.", f"in Python:\n{OURS}\nat x")], OURS),
        ([event("u", "Update u is FAILED."), event("u", "Flow f has FAILED.", "no such\n table")], "no such table"),
        ([event("u", "Update u is FAILED."), event("before", "x", OURS)], "Update u is FAILED."),
        ([event("before", "x", OURS)], f"why {BUNDLE} declared failed"),
    ],
)
def test_the_cause_of_an_update_is_its_first_error(events: list[PipelineEvent], why: str) -> None:
    """Events come newest first."""
    workspace: Any = client({}, {f"{BUNDLE} declared": [{"state": "FAILED", "update_id": "u"}]})
    workspace.pipelines.list_pipeline_events.side_effect = lambda pipeline_id, **_: iter(events)
    assert only(last_runs(workspace, BUNDLE)).why == why


def test_what_is_the_bundles() -> None:
    jobs: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in (
            f"{BUNDLE} ingest", f"[dev some one] {BUNDLE} verify", f"{BUNDLE}-eu ingest", f"my {BUNDLE} ingest",
            f"[dev x] {BUNDLE}2 ingest", "",
        )
    }  # fmt: skip
    found = last_runs(client(jobs), BUNDLE)
    assert [(run.target, run.name) for run in found] == [("", f"{BUNDLE} ingest"), ("dev", f"{BUNDLE} verify")]
    assert [run.name for run in last_runs(client(jobs), BUNDLE, "dev")] == [f"{BUNDLE} verify"]
    with pytest.raises(ConfigError, match="no job or pipeline of the bundle other") as caught:
        last_runs(client(jobs), "other")
    assert "deploy" in caught.value.hint


def test_an_error_of_the_sdk_is_ours() -> None:
    failing: Any = client({})
    failing.jobs.list.side_effect = PermissionDenied("no", error_code="PERMISSION_DENIED")
    with pytest.raises(ConfigError, match="cannot list the jobs: PERMISSION_DENIED"):
        last_runs(failing, BUNDLE)
    failing.jobs.list.side_effect = TimeoutError("Timed out after 0:01:00")
    with pytest.raises(TransientError, match="cannot be reached"):
        last_runs(failing, BUNDLE)


# ---------------------------------------------------------------- the command, by the real SDK

RUNS = {1: [run("", began=NOON + 1), run("SUCCESS")], 2: [run("RUN_EXECUTION_ERROR", message="exit code 1")], 3: []}


def jobs(asked: dict[str, str]) -> Answer:
    """Two pages."""
    if "page_token" not in asked:
        return 200, {"jobs": [job(1, f"{BUNDLE} ingest"), job(9, "theirs")], "next_page_token": "2", "has_more": True}
    return 200, {"jobs": [job(2, f"{BUNDLE} verify"), job(3, f"[dev me] {BUNDLE} ingest")], "has_more": False}


def runs(asked: dict[str, str]) -> Answer:
    return 200, {"runs": RUNS[int(asked["job_id"])]}


def pipelines(asked: dict[str, str]) -> Answer:
    updates = [{"update_id": "u", "state": "COMPLETED", "creation_time": "2026-01-01T12:00:00.123Z"}]
    return 200, {"statuses": [{"pipeline_id": "p", "name": f"{BUNDLE} declared", "latest_updates": updates}]}


def of_one_run(asked: dict[str, str]) -> Answer:
    return 200, {"run_id": int(asked["run_id"]), "tasks": [task(7, "RUN_EXECUTION_ERROR")]}


def output(asked: dict[str, str]) -> Answer:
    return 200, {"logs": f"error: {OURS}\n", "error": "SystemExit: 3"}


ROUTES = {
    "/api/2.2/jobs/list": jobs, "/api/2.2/jobs/runs/list": runs, "/api/2.0/pipelines": pipelines,
    "/api/2.2/jobs/runs/get": of_one_run, "/api/2.2/jobs/runs/get-output": output,
}  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Rest]:
    monkeypatch.setattr(workspace.client, "__defaults__", (1,))
    with rest(dict(ROUTES)) as found:
        monkeypatch.setenv("DATABRICKS_HOST", found.url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "a-token")
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none"))
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "databricks.yml").write_text(f"bundle: {{name: {BUNDLE}}}\n")
    return tmp_path


def status(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["bundle", "status", *map(str, arguments)], catch_exceptions=False)


def test_a_failed_last_run_is_exit_code_1(server: Rest, folder: Path) -> None:
    done = status(folder, "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert (told["bundle"], told["failed"]) == (BUNDLE, True)
    assert [(r["target"], r["kind"], r["name"], r["result"], r["failed"], r["running"]) for r in told["runs"]] == [
        ("", "job", f"{BUNDLE} ingest", "SUCCESS", False, True),
        ("", "job", f"{BUNDLE} verify", "RUN_EXECUTION_ERROR", True, False),
        ("", "pipeline", f"{BUNDLE} declared", "COMPLETED", False, False),
        ("dev", "job", f"{BUNDLE} ingest", "", False, False),
    ]
    for_people = status(folder)
    assert for_people.exit_code == 1
    assert f"failed {BUNDLE} verify: {OURS} https://w/#1" in for_people.stdout
    assert {token for _, _, token in server.asked} == {"Bearer a-token"}


def test_no_failure_is_exit_code_0(server: Rest, folder: Path) -> None:
    assert status(folder, "-t", "dev").exit_code == 0
    assert status(folder, "-t", "prod").exit_code == 2


@remedy(codes.BUNDLE_NOT_DEPLOYED)
def test_the_bundle_is_deployed_as_the_hint_says(server: Rest, folder: Path, tmp_path: Path) -> None:
    """What a deployment leaves in the workspace is a job; the stand-in has it once the command is given."""
    refused = call(2, "bundle", "status", tmp_path / "nowhere")
    assert (refused["code"], refused["hint"]) == (codes.BUNDLE_NOT_DEPLOYED.label, "name the bundle's folder")
    refused = call(2, "bundle", "status", folder, "-t", "test")
    assert refused["code"] == codes.BUNDLE_NOT_DEPLOYED.label
    deploy = re.fullmatch(r"in the bundle's folder: databricks bundle deploy -t (\w+)", refused["hint"])
    assert deploy, refused["hint"]
    deployed = job(3, f"[{deploy[1]} me] {BUNDLE} ingest")
    server.routes = {**ROUTES, "/api/2.2/jobs/list": lambda _: (200, {"jobs": [deployed], "has_more": False})}
    [run] = call(0, "bundle", "status", folder, "-t", "test")["runs"]
    assert run["name"] == f"{BUNDLE} ingest"


def test_a_workspace_that_refuses_or_fails(server: Rest, folder: Path) -> None:
    server.routes = {**ROUTES, "/api/2.2/jobs/list": lambda _: (403, {"error_code": "PERMISSION_DENIED"})}
    refused = status(folder)
    assert refused.exit_code == 2
    assert "cannot list the jobs: PERMISSION_DENIED" in refused.stderr
    server.routes = {**ROUTES, "/api/2.0/pipelines": lambda _: (500, {"error_code": "INTERNAL_ERROR"})}
    failed = status(folder)
    assert failed.exit_code == 3
    assert "cannot list the pipelines: INTERNAL_ERROR" in failed.stderr


def test_no_bundle_is_there(server: Rest, tmp_path: Path) -> None:
    assert "cannot read" in status(tmp_path).stderr
    (tmp_path / "databricks.yml").write_text("targets: {}\n")
    named = status(tmp_path)
    assert named.exit_code == 2
    assert "names no bundle" in named.stderr


def test_without_the_sdk(server: Rest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databricks.sdk", None)
    done = status(folder)
    assert done.exit_code == 2
    assert "the Databricks SDK is not installed" in done.stderr
