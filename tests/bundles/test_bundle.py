"""The bundle without a workspace: every resource through Databricks' own classes, every path, reference and command.

Only the CLI knows how it reads the files; where one is installed, it is asked, too.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.pipelines import Pipeline
from databricks.bundles.schemas import Schema
from databricks.bundles.secret_scopes import SecretScope
from databricks.bundles.volumes import Volume
from typer.main import get_group

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.source.options import SourceOptions
from tests.support.bundles.declared import BUNDLE, ROOT, TARGETS, WORKSPACE, Declared, included, read, settings
from tests.support.bundles.example import example

CLASSES: dict[str, Any] = {
    "jobs": Job,
    "pipelines": Pipeline,
    "schemas": Schema,
    "secret_scopes": SecretScope,
    "volumes": Volume,
    "alerts": Alert,
    "dashboards": Dashboard,
}
KINDS = {"secret_scopes": "secret_scope"}  # in the names of files; else without the s
WRITERS = ("ingest", "ingest_continuous", "ingest_serverless")
CONFIGS = ("config", "declarative_config")


@pytest.fixture(params=TARGETS)
def bundle(request: pytest.FixtureRequest) -> Declared:
    return Declared(request.param)


def wheel_tasks(bundle: Declared) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, job, task) of every task of every job: all are wheel tasks."""
    for name, job in bundle.resources("jobs").items():
        for task in job["tasks"]:
            yield name, job, task


def wheels(job: dict[str, Any], task: dict[str, Any]) -> list[str]:
    """The wheels that a task installs: of its environment, or of its cluster."""
    if "environment_key" in task:
        [environment] = [e for e in job["environments"] if e["environment_key"] == task["environment_key"]]
        dependencies: list[str] = environment["spec"]["dependencies"]
        return dependencies
    assert task["job_cluster_key"] in [c["job_cluster_key"] for c in job["job_clusters"]]
    return [library["whl"] for library in task["libraries"]]


def test_every_target_is_tested() -> None:
    assert tuple(settings()["targets"]) == TARGETS
    assert [name for name, target in settings()["targets"].items() if target.get("default")] == ["dev"]


def test_every_resource_is_one_of_databricks(bundle: Declared) -> None:
    """The classes refuse unknown fields, missing ones, and values of another type."""
    assert set(bundle.whole["resources"]) == set(CLASSES)
    for kind, of in CLASSES.items():
        found = bundle.resources(kind)
        assert found
        for resource in found.values():
            named = "display_name" if kind in ("alerts", "dashboards") else "name"
            assert of.from_dict(resource).as_dict()[named] == resource[named]


def test_it_is_what_the_templates_make() -> None:
    files = example().files()
    assert {name: (BUNDLE / name).read_text(encoding="utf-8") for name in files} == files
    there = {path.relative_to(BUNDLE).as_posix() for path in BUNDLE.rglob("*") if path.is_file()}
    assert {name for name in there if not name.startswith((".", "__pycache__"))} == set(files)


def test_a_file_has_one_resource_and_says_so() -> None:
    """The CLI wants names as *.job.yml to have one resource of that kind."""
    for path in included():
        [(kind, [key])] = [(kind, list(found)) for kind, found in read(path)["resources"].items()]
        assert path.name == f"{key}.{KINDS.get(kind, kind[:-1])}.yml"


@pytest.mark.parametrize(
    "wrong", [{"entrypoint": "x"}, {"max_concurrent_runs": "one"}, {"continuous": {"pause_status": "NO"}}]
)
def test_a_wrong_job_would_be_found(wrong: dict[str, Any]) -> None:
    job: Any = Declared("prod").resources("jobs")["ingest"] | wrong
    with pytest.raises((ValueError, TypeError)):
        Job.from_dict(job)


@pytest.mark.parametrize("wrong", [{"chanel": "PREVIEW"}, {"configuration": "x"}, {"libraries": [{"file": "x"}]}])
def test_a_wrong_pipeline_would_be_found(wrong: dict[str, Any]) -> None:
    pipeline: Any = Declared("prod").resources("pipelines")["declarative"] | wrong
    with pytest.raises((ValueError, TypeError)):
        Pipeline.from_dict(pipeline)


def test_every_reference_leads_somewhere_and_every_variable_is_used() -> None:
    bundles = [Declared(target) for target in TARGETS]
    for bundle in bundles:
        bundle.resolved({key: value for key, value in bundle.whole.items() if key != "targets"})
    assert not {f"var.{name}" for name in bundles[0].whole["variables"]}.difference(*(b.used for b in bundles))


def test_the_secrets_that_the_pipelines_name_have_a_scope(bundle: Declared) -> None:
    [scope] = bundle.resources("secret_scopes").values()
    for variable in CONFIGS:
        text = (BUNDLE / bundle.variables[variable]).read_text(encoding="utf-8")
        assert re.findall(r"\$\{secret:([^/}]+)/mysql_password\}", text) == [scope["name"]]
        assert f"databricks secrets put-secret {scope['name']} mysql_password\n" in text
    if bundle.target == "dev":
        asked = f"\ndatabricks secrets put-secret {scope['name']} mysql_password\n"
        assert asked in (ROOT / "docs" / "guides" / "databricks.md").read_text(encoding="utf-8")
    scopes = [Declared(target).variables["secret_scope"] for target in TARGETS]
    assert len({*scopes}) == len(TARGETS)


def test_production_runs_as_who_deploys_it_and_opens_no_secrets() -> None:
    """The CLI grants CAN_VIEW of a bundle as READ of its secret scopes."""
    whole = Declared("prod").whole
    assert Declared("prod").resolved(whole["run_as"]) == {"user_name": WORKSPACE["workspace.current_user.userName"]}
    assert [one["level"] for one in whole["permissions"]] == ["CAN_MANAGE", "CAN_RUN"]
    assert not {"run_as", "permissions"} & Declared("dev").whole.keys()


def test_what_cannot_be_made_again_is_not_destroyed_in_production_alone() -> None:
    kept = {
        target: {
            f"{kind}.{name}"
            for kind in CLASSES
            for name, one in Declared(target).resources(kind).items()
            if one.get("lifecycle", {}).get("prevent_destroy")
        }
        for target in TARGETS
    }
    layers = {f"schemas.{schema}" for schema in ("cdc", "bronze", "silver", "declarative_bronze", "declarative_silver")}
    whole = {"volumes.checkpoints", "secret_scopes.source", "pipelines.declarative", *layers}
    assert kept == {"dev": set(), "prod": whole}


@pytest.mark.parametrize("reference", ["${var.nothing}", "${resources.jobs.nothing.id}", "${workspace.nothing}"])
def test_a_reference_that_leads_nowhere_would_be_found(reference: str) -> None:
    with pytest.raises(KeyError):
        Declared("dev").resolved({"a": [f"x {reference}"]})


def test_the_wheel_is_built_where_every_task_looks_for_it(bundle: Declared) -> None:
    [artifact] = bundle.whole["artifacts"].values()
    package = (BUNDLE / artifact["path"]).resolve()
    assert (package / "pyproject.toml").is_file()
    [built] = [(BUNDLE / file["source"]).resolve() for file in artifact["files"]]
    assert built == package / "dist" / "*.whl"  # `uv build` writes there
    looked_for = [
        (path.parent / wheel).resolve()  # relative to the file that says it
        for path in included()
        for job in read(path)["resources"].get("jobs", {}).values()
        for task in job["tasks"]
        for wheel in wheels(job, task)
    ]
    assert len(looked_for) == len(list(wheel_tasks(bundle)))
    looked_for += [
        (path.parent / wheel).resolve()
        for path in included()
        for pipeline in read(path)["resources"].get("pipelines", {}).values()
        for wheel in pipeline["environment"]["dependencies"]
    ]
    assert set(looked_for) == {built}


def test_what_goes_to_the_workspace_is_there(bundle: Declared) -> None:
    synced = [(BUNDLE / path).resolve() for path in bundle.whole["sync"]["paths"]]
    assert synced == [BUNDLE, ROOT / "notebooks"]  # so the workspace's folder stands for their parent, the root
    assert all(any(folder.iterdir()) for folder in synced)
    for _, _, task in wheel_tasks(bundle):
        [config] = [
            p for p in task["python_wheel_task"]["parameters"] if p.startswith(WORKSPACE["workspace.file_path"])
        ]
        local = ROOT / Path(config).relative_to(WORKSPACE["workspace.file_path"])
        assert local.is_file()
        assert BUNDLE in local.parents


def test_every_command_is_one_of_ours(bundle: Declared) -> None:
    group = get_group(app)
    commands: dict[str, list[tuple[str, bool | None, bool | None]]] = {}
    for name, _, task in wheel_tasks(bundle):
        command, *arguments = task["python_wheel_task"]["parameters"]
        context = group.commands[command].make_context(command, arguments)  # raises for what it does not know
        asked = (command, context.params.get("once"), context.params.get("vacuum"))
        commands.setdefault(name, []).append(asked)
    assert commands == {
        "ingest": [("run", True, None)],
        "ingest_continuous": [("run", False, None)],
        "ingest_serverless": [("run", True, None)],
        "maintain": [("maintain", None, True), ("verify", None, None)],
        "verify": [("verify", None, None)],
        "doctor": [("doctor", None, None)],
    }
    [first, second] = bundle.resources("jobs")["maintain"]["tasks"]
    assert [d["task_key"] for d in second["depends_on"]] == [first["task_key"]]


def test_a_declarative_pipeline_finds_its_definition_and_its_file(bundle: Declared) -> None:
    """It registers tables by `register`, which tests/test_declarative.py runs; the file is one of the bundle's."""
    [pipeline] = bundle.resources("pipelines").values()
    [library] = pipeline["libraries"]
    definition = (BUNDLE / "resources" / library["file"]["path"]).resolve()
    assert definition == BUNDLE / "definition.py"
    assert definition.is_file()
    config = Path(pipeline["configuration"]["lakehouse_cdc.config"])
    local = ROOT / config.relative_to(WORKSPACE["workspace.file_path"])
    assert local == BUNDLE / bundle.variables["declarative_config"]
    assert load(local).target.catalog == pipeline["catalog"]
    assert pipeline["edition"] in ("PRO", "ADVANCED")  # those that have AUTO CDC
    assert pipeline["continuous"] is False  # an update is started by whoever wants one
    assert pipeline["serverless"] is False
    assert [cluster["num_workers"] for cluster in pipeline["clusters"]] == [bundle.variables["workers"]]
    bundle.variables |= {"declarative_serverless": True, "declarative_clusters": []}
    serverless: Any
    [serverless] = bundle.resources("pipelines").values()
    made = Pipeline.from_dict(serverless)
    assert (made.serverless, made.clusters, made.channel) == (True, [], "PREVIEW")


@pytest.mark.parametrize("variable", CONFIGS)
def test_a_pipelines_file_and_the_resources_agree(bundle: Declared, variable: str) -> None:
    target = load(BUNDLE / bundle.variables[variable]).target
    schemas = bundle.resources("schemas")
    schema = schemas["cdc"]
    [volume] = bundle.resources("volumes").values()
    prefix = "declarative_" if variable == "declarative_config" else ""
    made = [schemas[f"{prefix}{layer}"] for layer in ("bronze", "silver")]
    assert [one["name"] for one in made] == [target.bronze, target.silver]
    assert {one["catalog_name"] for one in made} == {target.catalog}
    assert target.catalog == schema["catalog_name"] == volume["catalog_name"]
    assert volume["schema_name"] == schema["name"]
    assert target.checkpoints is not None
    where = Path(f"/Volumes/{volume['catalog_name']}/{volume['schema_name']}/{volume['name']}")
    assert Path(target.checkpoints).is_relative_to(where)


def test_pipelines_share_no_table_no_state_and_no_replica_id() -> None:
    files = [load(BUNDLE / Declared(target).variables[variable]) for target in TARGETS for variable in CONFIGS]
    for one, other in itertools.combinations(files, 2):
        assert not {one.target.bronze, one.target.silver} & {other.target.bronze, other.target.silver}
        assert (one.target.checkpoints, one.name) != (other.target.checkpoints, other.name)
    for jobs, declarative in zip(files[::2], files[1::2], strict=True):
        ours = SourceOptions.parse({"url": "mysql://a@b", "tables": "a.*"}, streaming=False).server_ids
        low, high = map(int, (declarative.source.server_ids or "0-0").split("-"))
        assert jobs.source.server_ids is None  # the default
        assert ours[1] < low < high


def test_one_pipeline_has_one_writer(bundle: Declared) -> None:
    jobs = bundle.resources("jobs")
    states = [(jobs[name].get("schedule") or jobs[name]["continuous"])["pause_status"] for name in WRITERS]
    assert states == {"dev": ["PAUSED"] * 3, "prod": ["UNPAUSED", "PAUSED", "PAUSED"]}[bundle.target]
    assert [jobs[name]["max_concurrent_runs"] for name in WRITERS] == [1, 1, 1]


def test_spark_runs_on_a_cluster_that_has_what_the_source_wants(bundle: Declared) -> None:
    """Spark 4.2, in the driver's process; serverless compute has neither: there is what a session of Connect can do."""
    serverless = {name for name, _, task in wheel_tasks(bundle) if "environment_key" in task}
    assert serverless == {"doctor", "ingest_serverless"}
    for name in bundle.resources("jobs").keys() - serverless:
        [cluster] = [c["new_cluster"] for c in bundle.resources("jobs")[name]["job_clusters"]]
        assert cluster["spark_version"].partition(".")[0] == "19"
        assert cluster["data_security_mode"] == "SINGLE_USER"


def test_parameters_of_a_job_reach_the_file(bundle: Declared) -> None:
    """Empty ones leave what it says, so the file alone is true until somebody gives another."""
    file = BUNDLE / bundle.variables["config"]
    for _, job, task in wheel_tasks(bundle):
        defaults = {one["name"]: one["default"] for one in job["parameters"]}
        arguments = task["python_wheel_task"]["parameters"]
        given = [setting for option, setting in itertools.pairwise(arguments) if option == "--set"]

        def settings_of(parameters: dict[str, str], given: list[str] = given) -> list[str]:
            return [re.sub(r"\{\{job\.parameters\.(\w+)\}\}", lambda m: parameters[m[1]], one) for one in given]

        assert load(file, settings_of(defaults)) == load(file)
        other = load(file, settings_of({"url": "mysql://cdc@other:3307", "tables": '[a.b, "!a.c"]'}))
        assert (other.source.url, other.source.tables) == ("mysql://cdc@other:3307", ("a.b", "!a.c"))


def test_nobody_is_written_to_until_somebody_is_named(bundle: Declared) -> None:
    def heard(bundle: Declared) -> list[Any]:
        jobs = list(bundle.resources("jobs").values())
        of_jobs = [
            list(job[kind].values()) for job in jobs for kind in ("email_notifications", "webhook_notifications")
        ]
        [pipeline], [alert] = (list(bundle.resources(kind).values()) for kind in ("pipelines", "alerts"))
        return [*of_jobs, pipeline["notifications"], alert["evaluation"]["notification"]["subscriptions"]]

    assert {str(one) for one in heard(bundle)} == {"[[], []]", "[[]]", "[]"}
    bundle.variables |= {
        "emails": ["a@b"], "webhooks": [{"id": "1"}], "alert_subscriptions": [{"user_email": "a@b"}],
        "declarative_notifications": [{"email_recipients": ["a@b"], "alerts": ["on-update-failure"]}],
    }  # fmt: skip
    test_every_resource_is_one_of_databricks(bundle)
    assert not [one for one in heard(bundle) if "[]" in str(one)]


def test_a_run_that_hangs_ends_and_one_that_is_slow_is_reported(bundle: Declared) -> None:
    """What runs without end is watched by its backlog; STREAMING_BACKLOG needs a stream from Delta, as silver's is."""
    for name, job in bundle.resources("jobs").items():
        rules = {rule["metric"]: rule["value"] for rule in job.get("health", {"rules": []})["rules"]}
        if name == "ingest_continuous":
            assert (set(rules), "timeout_seconds" in job) == ({"STREAMING_BACKLOG_SECONDS"}, False)
            assert "on_streaming_backlog_exceeded" in job["email_notifications"]
        else:
            assert 0 < rules.get("RUN_DURATION_SECONDS", 1) < job["timeout_seconds"]
            assert bool(rules) == ("on_duration_warning_threshold_exceeded" in job["email_notifications"])
        assert job["description"]
        assert job["tags"] == {"project": "lakehouse-cdc", "pipeline": "shop"}
        for task in job["tasks"]:  # a difference, or a finding of doctor's, stays one
            checks = task["task_key"] in ("verify", "doctor")
            assert task.get("max_retries") == (
                0 if checks else None if name == "ingest_continuous" else 2 - (name == "maintain")
            )


def test_grants_budget_and_machines_are_variables(bundle: Declared) -> None:
    read_only = [{"principal": "analysts", "privileges": ["USE_SCHEMA", "SELECT"]}]
    bundle.variables |= {"silver_grants": read_only, "budget_policy_id": "b-1", "node_type": "${var.node_types.azure}"}
    test_every_resource_is_one_of_databricks(bundle)
    schemas = bundle.resources("schemas")
    assert all(schema["comment"] for schema in schemas.values())
    assert [name for name, one in schemas.items() if one.get("grants")] == ["declarative_silver", "silver"]
    [pipeline] = bundle.resources("pipelines").values()
    jobs = bundle.resources("jobs")
    assert [jobs["doctor"]["budget_policy_id"], pipeline["budget_policy_id"]] == ["b-1", "b-1"]
    clusters = [c["new_cluster"] for job in jobs.values() for c in job.get("job_clusters", ())] + pipeline["clusters"]
    assert {cluster["node_type_id"] for cluster in clusters} == {"Standard_D4ds_v5"}


def test_the_guide_names_targets_jobs_and_pipelines_that_are_there() -> None:
    lines = (ROOT / "docs" / "guides" / "databricks.md").read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("databricks bundle ")]
    assert {command[2] for command in commands} == {"validate", "deploy", "run", "destroy"} & {c[2] for c in commands}
    assert len(commands) > 2
    for command in commands:
        assert command[command.index("-t") + 1] in TARGETS
        if command[2] == "run":
            declared = Declared("dev")
            assert command[-1] in {*declared.resources("jobs"), *declared.resources("pipelines")}
