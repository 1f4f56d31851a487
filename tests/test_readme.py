"""The README is run: its configuration, its commands, its Python, its SQL, against a real server.

`uv run lakehouse-cdc demo` and `uv run pytest` themselves are run by tests/cli and by whoever runs this.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.schema.typemap import markdown
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter
from lakehouse_cdc.testing.shop import TABLES
from tests.support.documents import README, blocks


def commands() -> list[list[str]]:
    """Every command line of the sh blocks, without its comment."""
    return [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines() if line.strip()]


# commands that are not run below: where the check of each is
ELSEWHERE = {
    "uv run lakehouse-cdc demo": "tests/cli/test_demo.py",
    "uv run pytest": "tests",
    "uv run lakehouse-cdc reset -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "uv run python -i notebooks/quickstart.py": "tests/notebooks/test_notebooks.py",
    # these want a workspace: the bundle, the target and the job that they name are checked, they are not run
    "cd bundles": "tests/bundles/test_bundle.py",
    "databricks bundle validate --strict -t dev": "tests/bundles/test_bundle.py",
    "databricks bundle deploy -t dev": "tests/bundles/test_bundle.py",
    "databricks secrets put-secret shop_dev mysql_password": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev doctor": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev ingest": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev declarative": "tests/bundles/test_bundle.py",
    "uv run lakehouse-cdc bundle init --url mysql://cdc@db:3306 --tables 'shop.*' --catalog main"
    " --password-env SHOP_PASSWORD shop-bundle": "tests/bundles/test_init.py",
    "uv run lakehouse-cdc bundle status shop-bundle": "tests/bundles/test_status.py",
    # hours on small machines: each is run with --quick, of merge all but its command line
    "uv run python -m bench.speed": "tests/bench/test_speed.py",
    "uv run python -m bench.latency": "tests/bench/test_latency.py",
    "uv run python -m bench.cost": "tests/bench/test_cost.py",
    "uv run python -m bench.merge": "tests/bench/test_merge.py",
}


def test_every_command_is_known_here() -> None:
    """Each is either run below, or named here with where it is checked."""
    mine = [c for c in commands() if shlex.join(c) not in ELSEWHERE]
    assert {shlex.join(c) for c in commands()} >= set(ELSEWHERE)
    assert all((Path(__file__).parent.parent / place).exists() for place in ELSEWHERE.values())
    assert [c[:3] for c in mine] == [["uv", "run", "lakehouse-cdc"]] * 7
    assert [c[3] for c in mine] == ["doctor", "run", "status", "verify", "as-of", "maintain", "signal"]


def test_the_types_are_those_of_the_type_map() -> None:
    assert f"\n{markdown()}\n" in README


def test_the_figures_are_those_that_were_measured() -> None:
    bench = Path(__file__).parent.parent / "bench"
    contests = {one["contest"]: one["contenders"] for one in json.loads((bench / "speed.json").read_text())["contests"]}
    took = {name: {one["name"]: f"{one['seconds']:.1f} s" for one in found} for name, found in contests.items()}
    of, log = took["snapshot"], took["bulk"]
    theirs = f"{of['Flink CDC']} into nothing | {of['Debezium engine']} into nothing"
    assert f"| {of['ours, bronze']} into bronze, {of['ours, silver']} into silver | {theirs} |" in README
    assert f"| {log['ours, bronze']} into bronze | {log['Flink CDC']} into nothing |" in README
    [untuned] = [one["seconds"] for one in contests["snapshot"] if one["name"] == "Flink CDC as it comes"]
    assert f"took {untuned:.0f} s for these rows" in README
    [rate] = [one for one in json.loads((bench / "latency.json").read_text())["rates"] if one["rate"] == 1_000]
    assert f"{rate['p50']:.1f} s after its commit (median; 99 %: {rate['p99']:.1f} s)" in README


def test_the_readme_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_PASSWORD", "cdc-secret")
    (grants,) = [b for b in blocks("sql") if "GRANT" in b]
    queries = [b.replace("`./", f"`{tmp_path}/") for b in blocks("sql") if "delta.`./lakehouse" in b]
    of_changes, of_schemas, of_a_moment, of_the_ledger = queries
    run_code, as_of_code, _, testing_code = blocks("python")  # the definition is run by tests/test_declarative.py
    assert "with MySqlServer.start() as server:" in testing_code
    with MySqlServer.start() as server:
        with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute("DROP USER 'cdc'@'127.0.0.1'")
            for statement in filter(None, (s.strip() for s in re.sub(r"--.*", "", grants).split(";"))):
                cursor.execute(statement.replace("'...'", "'cdc-secret'"))
        shop = Shop(server.connect)
        shop.create()
        shop.load(2_000)
        (text,) = blocks("yaml")
        Path("pipeline.yml").write_text(text.replace("127.0.0.1:3306", f"127.0.0.1:{server.port}"))
        with ShopWriter(shop, rate=20):
            for command in [c for c in commands() if "-c" in c and shlex.join(c) not in ELSEWHERE]:
                result = CliRunner().invoke(app, [*command[3:], "--json"], catch_exceptions=False)
                assert result.exit_code == 0, (command, result.output)
                assert json.loads(result.stdout.splitlines()[-1])
            names: dict[str, Any] = {}
            exec(run_code, names)
            exec(as_of_code, names)
    found = spark.sql(of_changes).collect()
    assert found
    assert {row.op for row in found} >= {"r"}
    schemas = {row.source_table: row for row in spark.sql(of_schemas).collect()}
    assert set(schemas) == {f"shop.{name}" for name in TABLES}
    assert all(row.valid_from.pos and row.valid_to is None for row in schemas.values())
    orders = spark.read.format("delta").load(f"{tmp_path}/lakehouse/shop_silver/orders")
    now = orders.where("__END_AT IS NULL").count()
    assert 0 < now < orders.count()
    seq = names["pipeline"].seq_at(position=f"{names['at']['file']}:{names['at']['pos']}")
    assert spark.sql(of_a_moment.replace(":seq", str(seq))).count() == now
    assert spark.sql(of_a_moment.replace(":seq", "0")).count() == 0
    assert set(names["then"]) == {f"shop.{name}" for name in TABLES}
    assert spark.table("orders_then").count() == now
    assert [row.version for row in spark.sql(of_the_ledger).collect()][-1] is not None
    assert "email" not in spark.read.format("delta").load(f"{tmp_path}/lakehouse/shop_silver/customers").columns


@pytest.mark.mysql
def test_the_testing_module_as_shown() -> None:
    testing_code = blocks("python")[-1]
    exec(testing_code, {})
