"""The README and the guides are run: their configuration, commands, Python and SQL, against a real server."""

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
from tests.support.documents import COMMANDS, ROOT, blocks, text

README = "README.md"
SOURCE = "docs/guides/prepare-the-source.md"
QUERIES = "docs/guides/query-the-tables.md"
TESTING = "docs/guides/test-a-pipeline.md"
COMPARISON = "docs/explanation/comparison.md"


def test_the_types_are_those_of_the_type_map() -> None:
    assert f"\n{markdown()}\n" in text("docs/reference/types.md")


def test_the_figures_are_those_that_were_measured() -> None:
    page, bench = text(COMPARISON), ROOT / "bench"
    contests = {one["contest"]: one["contenders"] for one in json.loads((bench / "speed.json").read_text())["contests"]}
    took = {name: {one["name"]: f"{one['seconds']:.1f} s" for one in found} for name, found in contests.items()}
    of, log = took["snapshot"], took["bulk"]
    theirs = f"{of['Flink CDC']} into nothing | {of['Debezium engine']} into nothing"
    assert f"| {of['ours, bronze']} into bronze, {of['ours, silver']} into silver | {theirs} |" in page
    assert f"| {log['ours, bronze']} into bronze | {log['Flink CDC']} into nothing |" in page
    [untuned] = [one["seconds"] for one in contests["snapshot"] if one["name"] == "Flink CDC as it comes"]
    assert f"took {untuned:.0f} s for these rows" in page
    [rate] = [one for one in json.loads((bench / "latency.json").read_text())["rates"] if one["rate"] == 1_000]
    assert f"{rate['p50']:.1f} s after its commit (median; 99 %: {rate['p99']:.1f} s)" in page
    short = f"in bronze after {of['ours, bronze']}, and in silver after {of['ours, silver']}, on 2 cores;"
    assert f"{short} Flink CDC needs {of['Flink CDC']} to read" in " ".join(text(README).split())


def test_what_a_merge_costs_is_what_was_measured() -> None:
    runs = {
        (r["scd"], r["keys"], r["rows"]): r for r in json.loads((ROOT / "bench" / "merge.json").read_text())["runs"]
    }
    page = " ".join(text(COMPARISON).split())

    def took(scd: int, keys: str, rows: int) -> str:
        return f"{runs[scd, keys, rows]['seconds']:.1f} s"

    small, large = 100_000, 10_000_000
    near = (
        f"take {took(1, 'near', large)} in a table of {large:,} rows and {took(1, 'near', small)} in one of {small:,}"
    )
    assert near in page
    assert (
        f"takes {took(1, 'random', small)} in the small table and {took(1, 'random', large)} in the large one" in page
    )
    assert f"with `scd: 2`, {took(2, 'random', small)} and {took(2, 'random', large)}" in page
    of, versions = runs[1, "random", large], runs[2, "random", large]
    wrote = f"{of['bytes_written'] / 1e6:.1f} MB (`scd: 2`: {versions['bytes_written'] / 1e6:.1f} MB)"
    assert f"does not grow: {wrote}" in page
    assert f"whose size is {of['table_bytes'] / 1e6:.0f} MB ({versions['table_bytes'] / 1e6:.0f} MB)" in page


@pytest.mark.long
def test_the_readme_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_PASSWORD", "cdc-secret")
    grants, of_changes = blocks("sql", README)
    grants = "\n".join([grants, *blocks("sql", SOURCE)])
    queries = [of_changes, *blocks("sql", QUERIES)]
    of_changes, of_schemas, of_a_moment, of_the_ledger = [q.replace("`./", f"`{tmp_path}/") for q in queries]
    [run_code], [as_of_code] = blocks("python", README), blocks("python", QUERIES)
    with MySqlServer.start() as server:
        with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
            cursor.execute("DROP USER 'cdc'@'127.0.0.1'")
            for statement in filter(None, (s.strip() for s in re.sub(r"--.*", "", grants).split(";"))):
                cursor.execute(statement.replace("'...'", "'cdc-secret'"))
        shop = Shop(server.connect)
        shop.create()
        shop.load(2_000)
        (configuration,) = blocks("yaml", README)
        Path("pipeline.yml").write_text(configuration.replace("127.0.0.1:3306", f"127.0.0.1:{server.port}"))
        with ShopWriter(shop, rate=20):
            for command in [command for command, place in COMMANDS.items() if place == "tests/test_readme.py"]:
                arguments = shlex.split(command.removeprefix("uv run lakehouse-cdc "))
                result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
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
    (testing_code,) = blocks("python", TESTING)
    exec(testing_code, {})
