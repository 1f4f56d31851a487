"""The real `databricks` CLI, where it is on the PATH: `bundle validate --strict` against a stand-in for a workspace.

Where `databricks-testserver` is on the PATH, too, both bundles are deployed, run and destroyed in it. That is the
workspace of the CLI's own acceptance tests (`libs/testserver` of its repository), as a program which prints its address
and serves until it is ended. It runs a wheel task for real: it installs the wheel of the deployment in a new
environment, by `uv` and a Python 3.10, and calls its entry point. It has no files at /Workspace, so the task ends with
our error for that.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from lakehouse_cdc.bundle.files import Package
from lakehouse_cdc.errors import codes
from tests.support.bundles.declared import BUNDLE, ROOT, TARGETS, included
from tests.support.bundles.example import example
from tests.support.bundles.workspace import workspace

CLI = shutil.which("databricks")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CLI is None, reason="there is no `databricks` CLI on the PATH"),
]


SERVER = shutil.which("databricks-testserver")
NO_SERVER = "there is no `databricks-testserver` on the PATH"
RESOURCES = len(included()) + 1  # the scope's permissions


def databricks(bundle: Path, host: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One call of the CLI in the bundle's folder, of a user who has no other settings."""
    assert CLI is not None
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("DATABRICKS_", "BUNDLE_"))}
    given = {"DATABRICKS_HOST": host, "DATABRICKS_TOKEN": "dbapi0", "DATABRICKS_CONFIG_FILE": str(bundle / "none")}
    given |= {"DATABRICKS_BUNDLE_ENGINE": "direct", "HOME": str(bundle.parent)}  # the other engine is downloaded
    return subprocess.run([CLI, *arguments], cwd=bundle, env={**mine, **given}, capture_output=True, text=True)


def validate(bundle: Path, target: str, *more: str) -> subprocess.CompletedProcess[str]:
    with workspace() as host:
        return databricks(bundle, host, "bundle", "validate", "--strict", "-t", target, *more)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy: the CLI writes beside what it reads."""
    for folder in (BUNDLE, ROOT / "notebooks"):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns(".databricks"))
    return tmp_path / BUNDLE.name


@pytest.fixture
def built(bundle: Path) -> Path:
    """The same, with the package beside it, so that its wheel can be built."""
    shutil.copytree(ROOT / "lakehouse_cdc", bundle.parent / "lakehouse_cdc", ignore=shutil.ignore_patterns("*.pyc"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, bundle.parent / name)
    return bundle


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """What `bundle init` writes."""
    replace(example(), package=Package.of("")).write(tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("of", ["bundle", "written"])
def test_it_is_valid(request: pytest.FixtureRequest, of: str, target: str) -> None:
    done = validate(request.getfixturevalue(of), target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation OK!" in done.stdout


def test_other_machines_and_another_warehouse(bundle: Path) -> None:
    given = ["--var", "node_type=${var.node_types.azure}", "--var", "warehouse=5678", "-o", "json"]
    done = validate(bundle, "prod", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    resources = json.loads(done.stdout)["resources"]
    [cluster] = resources["jobs"]["ingest"]["job_clusters"]
    assert cluster["new_cluster"]["node_type_id"] == "Standard_D4ds_v5"
    shown, asked = resources["dashboards"]["operations"], resources["alerts"]["age"]
    assert [shown["warehouse_id"], asked["warehouse_id"]] == ["5678", "5678"]


def test_the_declarative_pipeline_may_be_serverless(bundle: Path) -> None:
    file = bundle / "databricks.yml"
    text = file.read_text(encoding="utf-8")
    begin = text.index("    default:\n      - label: default")
    changed = text[:begin] + "    default: []\n" + text[text.index("  budget_policy_id:\n") :]
    file.write_text(changed.replace("with no clusters.\n    default: false", "with no clusters.\n    default: true"))
    done = validate(bundle, "prod")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation OK!" in done.stdout


def test_a_wrong_one_is_not(bundle: Path) -> None:
    file = bundle / "resources" / "doctor.job.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("entry_point:", "entrypoint:"))
    done = validate(bundle, "dev")
    assert done.returncode != 0
    assert "unknown field: entrypoint" in done.stdout + done.stderr


@pytest.fixture
def host() -> Iterator[str]:
    """A workspace that has a warehouse."""
    assert SERVER is not None
    with subprocess.Popen([SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            body = json.dumps({"name": example().warehouse}).encode()
            asked = Request(f"{address}/api/2.0/sql/warehouses", body, {"Authorization": "Bearer dbapi0"})
            urlopen(asked).close()
            yield address
        finally:
            server.terminate()


@pytest.mark.long
@pytest.mark.skipif(SERVER is None, reason=NO_SERVER)
@pytest.mark.parametrize("of", ["built", "written"])
def test_it_lives_and_ends(request: pytest.FixtureRequest, host: str, of: str) -> None:
    """The steps that `bundle init` prints, as they stand but for the secret's value, which it would ask for."""
    bundle: Path = request.getfixturevalue(of)
    outputs = {}
    for step in example().steps:
        program, *arguments = shlex.split(step)
        assert program == "databricks"
        value = ["--string-value", "s3cr3t"] if "put-secret" in arguments else []
        done = databricks(bundle, host, *arguments, *value)
        outputs[step] = done.stdout + done.stderr
        assert (done.returncode == 0) is ("bundle run" not in step), outputs[step]
    _, deployed, _, *runs = outputs.values()
    assert f"{RESOURCES} created, 0 changed, 0 deleted" in deployed
    for ran in runs:
        assert codes.CONFIG_FILE_UNREADABLE.label in ran, ran
        assert "/pipeline.dev.yml" in ran
    updated = databricks(bundle, host, "bundle", "run", "-t", "dev", "declarative", "--no-wait")
    assert updated.returncode == 0, updated.stderr
    again = databricks(bundle, host, "bundle", "deploy", "-t", "dev")
    assert again.returncode == 0, again.stderr
    if of == "written":  # the other one has a new wheel
        assert f"0 created, 0 changed, 0 deleted, {RESOURCES} unchanged" in again.stdout + again.stderr
    destroyed = databricks(bundle, host, "bundle", "destroy", "-t", "dev", "--auto-approve")
    assert destroyed.returncode == 0, destroyed.stderr
    assert "secret_scopes.source" in destroyed.stdout + destroyed.stderr


@pytest.mark.long
@pytest.mark.skipif(SERVER is None, reason=NO_SERVER)
def test_production_is_not_destroyed(written: Path, host: str) -> None:
    """Whoever means it takes `prevent_destroy` out first."""
    deployed = databricks(written, host, "bundle", "deploy", "-t", "prod")
    assert deployed.returncode == 0, deployed.stderr
    kept = databricks(written, host, "bundle", "destroy", "-t", "prod", "--auto-approve")
    assert kept.returncode != 0
    whole = kept.stdout + kept.stderr
    for kind, name in (("volumes", "checkpoints"), ("secret_scopes", "source"), ("pipelines", "declarative")):
        assert f"resources.{kind}.{name} has lifecycle.prevent_destroy set" in whole
    for schema in ("cdc", "bronze", "silver", "declarative_bronze", "declarative_silver"):
        assert f"resources.schemas.{schema} has lifecycle.prevent_destroy set" in whole
