"""`databricks bundle validate --strict`, where that CLI is on the PATH, against a stand-in for a workspace."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lakehouse_cdc.bundle.files import Package, Plan
from lakehouse_cdc.draft.pipeline_file import Draft
from lakehouse_cdc.draft.survey import Survey
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.bundles.declared import BUNDLE, ROOT, TARGETS
from tests.support.bundles.workspace import workspace

CLI = shutil.which("databricks")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CLI is None, reason="there is no `databricks` CLI on the PATH"),
]


def validate(bundle: Path, target: str) -> subprocess.CompletedProcess[str]:
    assert CLI is not None
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("DATABRICKS_", "BUNDLE_"))}
    with workspace() as host:
        given = {"DATABRICKS_HOST": host, "DATABRICKS_TOKEN": "none", "DATABRICKS_CONFIG_FILE": str(bundle / "none")}
        command = [CLI, "bundle", "validate", "--strict", "-t", target]
        return subprocess.run(
            command, cwd=bundle, env={**mine, **given, "HOME": str(bundle.parent)}, capture_output=True, text=True
        )


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A copy: the CLI writes beside what it reads."""
    for folder in (BUNDLE, ROOT / "notebooks"):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns(".databricks"))
    return tmp_path / BUNDLE.name


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_valid(bundle: Path, target: str) -> None:
    done = validate(bundle, target)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation OK!" in done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_what_init_writes_is_valid(tmp_path: Path, target: str) -> None:
    table = TableSchema("shop", "t", (Column("id", "int"),), ("id",))
    names, survey = Plan.target("main", "s", "b", "v"), Survey({table.name: table})
    draft = Draft("shop", "mysql://cdc@db", "${secret:shop/k}", "required", ("shop.*",), names, survey)
    Plan(draft, "s", Package("lakehouse-cdc==0.1.0"), "m5d.xlarge").write(tmp_path / "bundle")
    done = validate(tmp_path / "bundle", target)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_declarative_pipeline_may_be_serverless(bundle: Path) -> None:
    file = bundle / "databricks.yml"
    text = file.read_text(encoding="utf-8")
    begin = text.index("    default:\n      - label: default")
    changed = text[:begin] + "    default: []\n" + text[text.index("  node_type:\n") :]
    file.write_text(changed.replace("with no clusters.\n    default: false", "with no clusters.\n    default: true"))
    done = validate(bundle, "prod")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation OK!" in done.stdout


def test_a_wrong_one_is_not(bundle: Path) -> None:
    file = bundle / "resources" / "check.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("entry_point:", "entrypoint:"))
    done = validate(bundle, "dev")
    assert done.returncode != 0
    assert "unknown field: entrypoint" in done.stdout + done.stderr
