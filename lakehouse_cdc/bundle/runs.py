"""The last runs of a bundle's jobs and pipelines, as the workspace reports them.

They are found by their names, which begin with the bundle's, after the `[dev somebody]` that Databricks puts before
those of a target in development mode. What counts is the last run that came to an end: while a continuous job is
running again, its last failure is still to be seen. A run that was skipped, since another one was on, has not been
one; a person's stop is no failure; and an end whose reason is not known here is one.

Databricks itself says of a failed run that its workload has failed, no more. The cause is what the task printed last as
an error of this package, else its exception; of a pipeline's update, the first error among its events.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.workspace import asking

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.jobs import BaseJob, BaseRun, RunTask
    from databricks.sdk.service.pipelines import PipelineEvent, PipelineStateInfo

_LOOKED_AT = 25  # runs of a job, newest first; also the most that a page has
_NO_RUN = {"SKIPPED", "MAX_CONCURRENT_RUNS_EXCEEDED", "MAX_JOB_QUEUE_SIZE_EXCEEDED", "DISABLED"}
_WELL = {"SUCCESS", "USER_CANCELED"}
_UPDATE_ENDS = {"COMPLETED", "FAILED", "CANCELED"}
_DEVELOPMENT = re.compile(r"^\[(?P<target>\S+) [^\]]*\] (?P<name>.*)$", re.DOTALL)
_MAY = "the login must be able to view the jobs and pipelines"
_OURS = re.compile(r"\bCDC-\d+ \w+: .*")  # an error's text
_ERRORS, _EVENTS = "level='ERROR'", 50  # which events of a pipeline, and how many of them, newest first


@dataclass(frozen=True)
class LastRun:
    """A job or a pipeline, and its last run (a pipeline's update) that has ended.

    `target` is known in development mode only. `result` is Databricks' own word, "" where no run has ended;
    `running` says that one is running. `began` and `seconds` (None: not reported) are of the run that has ended.
    """

    kind: str
    name: str
    target: str
    result: str
    failed: bool
    running: bool
    began: datetime | None = None
    seconds: float | None = None
    why: str = ""
    url: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data, the time in ISO 8601."""
        return {**asdict(self), "began": None if self.began is None else self.began.isoformat()}


def last_runs(workspace: WorkspaceClient, bundle: str, target: str = "") -> list[LastRun]:
    """What has become of every job and pipeline of a bundle, by name; of one target in development mode, or of all.

    Raises ConfigError where the workspace has none, or refuses; TransientError where it fails.
    """
    with asking("cannot list the jobs", _MAY):
        runs = [_job(workspace, job, *named) for job in workspace.jobs.list() if (named := _named(job, bundle))]
    with asking("cannot list the pipelines", _MAY):
        runs += [
            _pipeline(workspace, pipeline, *whose)
            for pipeline in workspace.pipelines.list_pipelines()
            if (whose := _whose(pipeline.name or "", bundle))
        ]
    runs = [run for run in runs if target in ("", run.target)]
    if not runs:
        of, option = (f" in target {target}", f" -t {target}") if target else ("", "")
        raise codes.BUNDLE_NOT_DEPLOYED.error(
            f"the workspace has no job or pipeline of the bundle {bundle}{of}",
            hint=f"in the bundle's folder: databricks bundle deploy{option}",
        )
    return sorted(runs, key=lambda run: (run.target, run.kind, run.name))


def _named(job: BaseJob, bundle: str) -> tuple[str, str] | None:
    return _whose((job.settings.name if job.settings else None) or "", bundle)


def _whose(name: str, bundle: str) -> tuple[str, str] | None:
    """(target, name without it) of what belongs to the bundle."""
    development = _DEVELOPMENT.match(name)
    target, plain = (development["target"], development["name"]) if development else ("", name)
    return (target, plain) if plain == bundle or plain.startswith(f"{bundle} ") else None


def _job(workspace: WorkspaceClient, job: BaseJob, target: str, name: str) -> LastRun:
    runs = list(islice(workspace.jobs.list_runs(job_id=job.job_id, limit=_LOOKED_AT), _LOOKED_AT))
    running = any(not _result(run) for run in runs)
    for run in runs:
        result = _result(run)
        if result and result not in _NO_RUN:
            began = datetime.fromtimestamp(run.start_time / 1000, timezone.utc) if run.start_time else None
            seconds = (run.end_time - run.start_time) / 1000 if run.end_time and run.start_time else None
            failed = result not in _WELL
            why = (_printed(workspace, run) or _why(run)) if failed else ""
            return LastRun(
                "job", name, target, result, failed, running, began, seconds, why, run.run_page_url or ""
            )  # fmt: skip
    return LastRun("job", name, target, "", False, running)


def _result(run: BaseRun | RunTask) -> str:
    """How a run has ended, "" while it has not."""
    if run.status is None or run.status.state is None or run.status.state.value != "TERMINATED":
        return ""
    details = run.status.termination_details
    return details.code.value if details is not None and details.code is not None else "UNKNOWN"


def _why(run: BaseRun) -> str:
    """What Databricks says of it."""
    details = run.status.termination_details if run.status is not None else None
    return " ".join((details.message or "").split()) if details is not None else ""


def _printed(workspace: WorkspaceClient, run: BaseRun) -> str:
    """What the tasks that failed printed of the cause, "" where that cannot be had: the end is known anyway."""
    from databricks.sdk.errors.base import DatabricksError

    causes: dict[str, None] = {}  # attempts of one task fail alike
    tasks: list[RunTask] = []
    with suppress(DatabricksError):
        tasks = (workspace.jobs.get_run(run.run_id).tasks or []) if run.run_id else []
    for task in tasks:
        if task.run_id and (result := _result(task)) and result not in (*_WELL, *_NO_RUN):
            with suppress(DatabricksError):  # one that waited for another one has no output
                output = workspace.jobs.get_run_output(task.run_id)
                ours = _OURS.findall(f"{output.logs or ''}\n{output.error or ''}")
                causes[" ".join((ours[-1] if ours else output.error or "").split())] = None
    return "; ".join(filter(None, causes))


def _pipeline(workspace: WorkspaceClient, pipeline: PipelineStateInfo, target: str, name: str) -> LastRun:
    updates = [u.state.value if u.state is not None else "UNKNOWN" for u in pipeline.latest_updates or ()]
    running = any(state not in (*_UPDATE_ENDS, "UNKNOWN") for state in updates)
    for update, state in zip(pipeline.latest_updates or (), updates, strict=True):
        if state in (*_UPDATE_ENDS, "UNKNOWN"):
            failed = state in ("FAILED", "UNKNOWN")
            why = _cause(workspace, pipeline, update.update_id) if failed else ""
            return LastRun("pipeline", name, target, state, failed, running, _time(update.creation_time), None, why)
    return LastRun("pipeline", name, target, "", False, running)


def _cause(workspace: WorkspaceClient, pipeline: PipelineStateInfo, update: str | None) -> str:
    """Of the update's errors the first, of this package if one is: others come of it. Else the pipeline's own word."""
    from databricks.sdk.errors.base import DatabricksError

    if not pipeline.pipeline_id:
        return ""
    texts: list[str] = []
    with suppress(DatabricksError):
        errors = workspace.pipelines.list_pipeline_events(pipeline.pipeline_id, filter=_ERRORS, max_results=_EVENTS)
        texts = [text for event in islice(errors, _EVENTS) if _of(event) == update and (text := _said(event))]
    ours = [one for text in texts for one in _OURS.findall(text)]
    said = [*texts, *ours] or [workspace.pipelines.get(pipeline.pipeline_id).cause or ""]
    return " ".join(said[-1].split())


def _of(event: PipelineEvent) -> str | None:
    return event.origin.update_id if event.origin is not None else None


def _said(event: PipelineEvent) -> str:
    exceptions = (event.error.exceptions or []) if event.error is not None else []
    return next((e.message for e in exceptions if e.message), "") or event.message or ""


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
