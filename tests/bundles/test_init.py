"""`bundle init`: what it writes for the tables of a real server is a bundle of Databricks', and a pipeline of ours.

The CLI of Databricks, where it is installed, is asked, too (tests/bundles/test_cli.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_group
from typer.testing import CliRunner, Result

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.testing import MySqlServer
from tests.bundles.test_bundle import CLASSES
from tests.support.bundles.declared import BUNDLE, TARGETS, WORKSPACE, Declared, included, read, settings
from tests.support.bundles.example import example
from tests.support.servers import connected

pytestmark = pytest.mark.mysql

PASSWORD = "s3cr3t-PÄSS"
ODD = "we[i]rd # x"
TABLES = {
    "orders": "(id BIGINT UNSIGNED PRIMARY KEY, total DECIMAL(10, 2))",
    "computed": "(a INT, b VARCHAR(9), n DATETIME AS (FROM_UNIXTIME(a)) VIRTUAL, PRIMARY KEY (a, b))",
    "`we[i]rd # x`": "(a INT PRIMARY KEY, `odd\n: '\"\u2028\U0001f600`\tINT, _seq INT)",
    "no_key": "(a INT)",
    "fl": "(a ENUM('', 'b') PRIMARY KEY, _seq INT)",
    "hole": "(a INT PRIMARY KEY) ENGINE = BLACKHOLE",
    "closed": "(a INT PRIMARY KEY, b INT)",
}
CAPTURED = {"init_shop.orders", "init_shop.computed", "init_shop.no_key", f"init_shop.{ODD}"}
SCOPE = "resources/source.secret_scope.yml"


@pytest.fixture(scope="module")
def server() -> Iterator[MySqlServer]:
    """Its user `capture` may read all tables but one, which it may only see."""
    with MySqlServer.start() as server:
        with closing(connected(server)) as connection, connection.cursor() as cursor:
            for database in ("init_shop", "init_other"):
                cursor.execute(f"CREATE DATABASE {database}")
            for name, declared in TABLES.items():
                cursor.execute(f"CREATE TABLE init_shop.{name} {declared}")
            cursor.execute("CREATE TABLE init_other.orders (id INT PRIMARY KEY)")
            cursor.execute("CREATE USER capture@'127.0.0.1' IDENTIFIED BY %s", [PASSWORD])
            cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capture@'127.0.0.1'")
            for name in ("init_other.*", *(f"init_shop.{table}" for table in TABLES if table != "closed")):
                cursor.execute(f"GRANT SELECT ON {name} TO capture@'127.0.0.1'")
            cursor.execute("GRANT SELECT (a), INSERT ON init_shop.closed TO capture@'127.0.0.1'")
        yield server


def init(server: MySqlServer, folder: Path, *more: str, url: str = "", user: str = "capture") -> Result:
    """Run the command for the tables of `init_shop`."""
    given = {"--url": url or f"mysql://{user}@127.0.0.1:{server.port}", "--tables": "init_shop.*", "--catalog": "lake"}
    arguments = [part for item in given.items() for part in item]
    return CliRunner().invoke(app, ["bundle", "init", *arguments, *more, str(folder)], catch_exceptions=False)


def held(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def written(server: MySqlServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A bundle, and what the command said of it in JSON."""
    folder = tmp_path_factory.mktemp("init") / "bundle"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INIT_PASSWORD", PASSWORD)
        done = init(server, folder, "--password-env", "INIT_PASSWORD", "--json")
    assert done.exit_code == 0, done.output
    return folder, json.loads(done.stdout)


def test_it_writes_these_files(written: tuple[Path, dict[str, Any]]) -> None:
    folder, told = written
    [wheel] = [name for name in told["files"] if name.startswith("wheels/")]
    assert set(told["files"]) == {*example().files(), wheel} == set(held(folder))
    assert told["healthy"] is True
    assert {f["name"] for f in told["findings"]} >= {"binlog_format", "tables", "REPLICATION SLAVE"}


def test_no_file_holds_the_password(written: tuple[Path, dict[str, Any]]) -> None:
    folder, told = written
    forms = [PASSWORD.encode(), PASSWORD.encode("latin1"), json.dumps(PASSWORD)[1:-1].encode(), b"s3cr3t"]
    assert not [name for name, data in held(folder).items() if any(form in data for form in forms)]
    assert "s3cr3t" not in json.dumps(told)
    for name, scope in {"pipeline.yml": "init_shop", "declarative.dev.yml": "init_shop_dev"}.items():
        assert load(folder / name).source.password == f"${{secret:{scope}/mysql_password}}"
    for target, scope in {"prod": "init_shop", "dev": "init_shop_dev"}.items():
        assert Declared(target, folder).resources("secret_scopes")["source"]["name"] == scope


def test_what_cannot_be_captured_is_named_with_its_reason(written: tuple[Path, dict[str, Any]]) -> None:
    folder, told = written
    assert set(told["tables"]) == CAPTURED
    left_out = {"fl": "an ENUM with an empty label", "hole": "engine BLACKHOLE", "closed": "may not"}
    assert set(told["left_out"]) == {f"init_shop.{name}" for name in left_out}
    text = (folder / "pipeline.yml").read_text(encoding="utf-8")
    for name, reason in left_out.items():
        assert reason in told["left_out"][f"init_shop.{name}"]
        [line] = [line for line in text.splitlines() if f'"!init_shop.{name}"' in line]
        assert reason in line
    excluded = {"init_shop.computed": {"n": "virtual generated"}, f"init_shop.{ODD}": {"_seq": "one that silver adds"}}
    assert {table: set(columns) for table, columns in told["excluded"].items()} == {
        table: set(columns) for table, columns in excluded.items()
    }
    assert "virtual generated" in text


def test_the_pipelines_capture_just_the_rest(written: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = written
    for name in ("pipeline.yml", "pipeline.dev.yml"):
        config = load(folder / name)
        selection = Selection(config.source.tables)
        all_tables = [f"init_shop.{table.strip('`')}" for table in TABLES]
        assert {table for table in all_tables if selection.matches(table)} == CAPTURED
        assert selection.matches("init_shop.of_tomorrow")
        assert config.excluded("init_shop.computed") == ("n",)
        assert config.excluded(f"init_shop.{ODD}") == ("_seq",)
        assert config.excluded("init_shop.orders") == ()
        assert config.target.metrics


@pytest.mark.parametrize("target", TARGETS)
def test_every_resource_is_one_of_databricks(written: tuple[Path, dict[str, Any]], target: str) -> None:
    bundle = Declared(target, written[0])
    assert set(bundle.whole["resources"]) == set(CLASSES)
    for kind, of in CLASSES.items():
        for resource in bundle.resources(kind).values():
            of.from_dict(resource)
    bundle.resolved({key: value for key, value in bundle.whole.items() if key != "targets"})
    of_prod = {"var.operators"} if target == "dev" else set()
    assert {f"var.{name}" for name in bundle.whole["variables"]} - bundle.used == of_prod
    assert set(bundle.resources("jobs")) == set(Declared(target).resources("jobs"))
    assert all(job["name"].startswith("lakehouse-cdc-init_shop ") for job in bundle.resources("jobs").values())


@pytest.mark.parametrize("target", TARGETS)
def test_the_jobs_find_their_file_and_their_volume(written: tuple[Path, dict[str, Any]], target: str) -> None:
    folder, _ = written
    bundle = Declared(target, folder)
    config = load(folder / bundle.variables["config"])
    schema = bundle.resources("schemas")["cdc"]
    [volume] = bundle.resources("volumes").values()
    assert config.target.catalog == schema["catalog_name"] == volume["catalog_name"] == "lake"
    assert config.target.checkpoints == f"/Volumes/lake/{schema['name']}/{volume['name']}"
    for job in bundle.resources("jobs").values():
        for task in job["tasks"]:
            command, *arguments = task["python_wheel_task"]["parameters"]
            get_group(app).commands[command].make_context(command, [*arguments])
            file = arguments[arguments.index("-c") + 1]
            assert file == f"{WORKSPACE['workspace.file_path']}/{bundle.variables['config']}"
    targets = [load(folder / Declared(target, folder).variables["config"]).target for target in TARGETS]
    assert not {targets[0].bronze, targets[0].silver} & {targets[1].bronze, targets[1].silver}


def test_what_is_not_of_the_source_is_as_in_our_own(written: tuple[Path, dict[str, Any]]) -> None:
    """The settings that its tests argue for: the cluster, who writes when, and what a target is."""
    mine, ours = settings(written[0]), settings()
    changed = ("package", "catalog", "tags")
    assert {k: v for k, v in mine["variables"].items() if k not in changed} == {
        k: v for k, v in ours["variables"].items() if k in mine["variables"] and k not in changed
    }
    assert mine["experimental"] == ours["experimental"]
    named = {target: {k: v.replace("init_shop", "shop") for k, v in one["variables"].items()}
             for target, one in mine["targets"].items()}  # fmt: skip
    assert named == {target: one["variables"] for target, one in ours["targets"].items()}
    for target in (*mine["targets"].values(), *ours["targets"].values()):
        del target["variables"]
    assert mine["targets"] == ours["targets"]
    assert mine["bundle"]["uuid"] != ours["bundle"]["uuid"]
    for name, data in held(BUNDLE / "resources").items():
        text = data.decode().replace("../../dist/*.whl", "../wheels/lakehouse_cdc-0.1.0-py3-none-any.whl")
        assert (written[0] / "resources" / name).read_text() == text.replace("_path}/bundles/", "_path}/")


@pytest.mark.parametrize("given", ["", "/Volumes/lake/cdc/wheels/lakehouse_cdc-0.1.0-py3-none-any.whl", "here"])
def test_what_the_jobs_install(server: MySqlServer, tmp_path: Path, given: str) -> None:
    wheel = tmp_path / "lakehouse_cdc-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    folder = tmp_path / "bundle"
    done = init(server, folder, "--wheel", str(wheel) if given == "here" else given, user="root")
    assert done.exit_code == 0, done.output
    bundle = Declared("prod", folder)
    named = given if given.startswith("/") else f"../wheels/{wheel.name}"
    installed: list[str] = []
    for job in bundle.resources("jobs").values():
        for task in job["tasks"]:
            found = task.get("libraries") or [
                {"whl": d} for e in job["environments"] for d in e["spec"]["dependencies"]
            ]
            installed += [library["whl"] for library in found]
    [pipeline] = bundle.resources("pipelines").values()
    assert installed + pipeline["environment"]["dependencies"] == [named] * 8
    if not given.startswith("/"):
        for path in included(folder):
            if read(path)["resources"].get("jobs"):
                assert ((path.parent / named).resolve().read_bytes() == b"a wheel") is (given == "here")


def test_a_secret_that_is_there_gets_no_scope(
    server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a variable of the environment it would be asked for in the workspace, already now."""
    folder = tmp_path / "my bundle"
    monkeypatch.setenv("INIT_PASSWORD", PASSWORD)
    given = ["--password-ref", "${secret:vault/db}", "--password-env", "INIT_PASSWORD", "--cloud", "gcp"]
    done = init(server, folder, *given)
    assert done.exit_code == 0, done.output
    assert set(example().files()) - set(held(folder)) == {SCOPE}
    for target in TARGETS:
        bundle = Declared(target, folder)
        bundle.resolved({key: value for key, value in bundle.whole.items() if key != "targets"})
        assert load(folder / bundle.variables["declarative_config"]).source.password == "${secret:vault/db}"
        assert bundle.resources("jobs")["ingest"]["job_clusters"][0]["new_cluster"]["node_type_id"] == "n2-standard-4"
    assert f"  cd '{folder}'\n" in done.stdout
    assert "put-secret" not in done.stdout


def test_the_next_steps_are_in_the_order_in_which_they_work(
    server: MySqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/bundles/test_cli.py runs them by the real CLI."""
    monkeypatch.setenv("INIT_PASSWORD", PASSWORD)
    done = init(server, tmp_path / "b", "--password-env", "INIT_PASSWORD")
    assert done.exit_code == 0, done.output
    steps = [line.strip() for line in done.stdout.partition("Next:\n")[2].splitlines()]
    assert steps == [
        f"cd {tmp_path / 'b'}", "databricks bundle validate --strict -t dev", "databricks bundle deploy -t dev",
        "databricks secrets put-secret init_shop_dev mysql_password", "databricks bundle run -t dev doctor",
        "databricks bundle run -t dev ingest",
    ]  # fmt: skip


def test_two_tables_that_share_a_name(server: MySqlServer, tmp_path: Path) -> None:
    done = init(server, tmp_path / "b", "--tables", "init_other.*", "--tables", "!init_shop.no_key", user="root")
    assert done.exit_code == 0, done.output
    config = load(tmp_path / "b" / "pipeline.yml")
    assert config.target.silver_name == "{database}__{table}"
    assert "!init_shop.no_key" in config.source.tables
    assert "no_key" not in done.output


def test_files_that_are_there_stay(server: MySqlServer, tmp_path: Path) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "doctor.job.yml").write_text("mine")
    done = init(server, tmp_path, user="root")
    assert done.exit_code == 2
    assert "doctor.job.yml is there already" in done.stderr
    assert held(tmp_path) == {"resources/doctor.job.yml": b"mine"}


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--password-ref", PASSWORD], 2, "takes its password from a secret"),
        (["--password-ref", "${secret:nothing}"], 2, "source.password: a secret is given by reference"),
        (["--password-env", "INIT_NOT_SET"], 2, "INIT_NOT_SET is not set"),
        (["--tables", "init_nowhere.*"], 3, "no table matches 'init_nowhere"),
        (["--tables", "!init_shop.*"], 3, "no table is selected"),
        (["--tls", "perhaps"], 2, "source.tls"),
        (["--name", "no name"], 2, "name: "),
        (["--wheel", "nothing.whl"], 2, "nothing.whl is no wheel"),
    ],
)
def test_wrong_use_writes_nothing(
    server: MySqlServer, tmp_path: Path, arguments: list[str], code: int, what: str
) -> None:
    done = init(server, tmp_path / "b", *arguments, user="root")
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert what in done.stderr
    assert "s3cr3t" not in done.output
    assert not (tmp_path / "b").exists()


def test_a_password_in_the_url_is_refused(server: MySqlServer, tmp_path: Path) -> None:
    done = init(server, tmp_path / "b", url=f"mysql://capture:s3cr3t@127.0.0.1:{server.port}")
    assert done.exit_code == 2
    assert "a password does not belong in the url" in done.stderr
    assert "s3cr3t" not in done.output


def test_a_source_that_is_not_fit(server: MySqlServer, tmp_path: Path) -> None:
    """The bundle is written all the same: what `doctor` finds is mended on the server."""
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_image = MINIMAL")
        try:
            done = init(server, tmp_path / "b", user="root")
        finally:
            cursor.execute("SET GLOBAL binlog_row_image = FULL")
    assert done.exit_code == 1
    assert "error binlog_row_image" in done.stdout
    assert set(held(tmp_path / "b")) >= set(example().files()) - {SCOPE}


def test_no_table_is_left(server: MySqlServer, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    arguments = ["--url", f"mysql://root@127.0.0.1:{server.port}", "--tables", "init_shop.hole", "--catalog", "c"]
    done = CliRunner().invoke(app, ["bundle", "init", *arguments, str(folder)])
    assert done.exit_code == 3
    assert "no table can be captured: init_shop.hole" in done.stderr
    assert "engine BLACKHOLE" in done.stderr
    assert not folder.exists()


def test_a_name_of_its_own(server: MySqlServer, tmp_path: Path) -> None:
    done = init(server, tmp_path, "--name", "1e3", "--bronze", "b", "--silver", "true", "--schema", "s", user="root")
    assert done.exit_code == 0, done.output
    config = load(tmp_path / "pipeline.yml")
    assert (config.name, config.target.bronze, config.target.silver) == ("1e3", "b", "true")
    assert yaml.safe_load((tmp_path / "databricks.yml").read_text())["bundle"]["name"] == "lakehouse-cdc-1e3"
