"""The configuration: every error names the line and never repeats a secret."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.options.secrets import Secret
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.config.source_options import choice, source_options
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.schema.masks import fingerprint
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.forms import APPEND, CURRENT, HISTORY, SOFT_DELETES
from lakehouse_cdc.source.options import SourceOptions

GOOD = """\
name: shop
source:
  url: mysql://cdc@127.0.0.1:3306
  password: ${env:SHOP_PASSWORD}
  tables: ["shop.*", "!shop.audit"]
target:
  path: ./lakehouse
  bronze: shop_bronze
  silver: shop_silver
tables:
  shop.customer: {exclude: [password_hash]}
  shop.cust*: {exclude: [notes]}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yml"
    path.write_text(text)
    return path


def test_a_good_file(tmp_path: Path) -> None:
    config = load(write(tmp_path, GOOD))
    assert config.source.tables == ("shop.*", "!shop.audit")
    assert config.excluded("shop.customer") == ("password_hash", "notes")
    assert config.excluded("shop.orders") == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("  tables: [", "  tabels: [", 5, ["source.tabels", "did you mean tables?"]),
        ("${env:SHOP_PASSWORD}", "hunter2", 4, ["source.password", "by reference"]),
        ("mysql://cdc@", "mysql://cdc:hunter2@", 3, ["does not belong in the url"]),
        ("mysql://cdc@", "postgres://cdc@", 3, ["mysql://user@host:port"]),
        ("  path: ./lakehouse\n", "", 6, ["path", "catalog"]),
        (
            "path: ./lakehouse",
            "path: gs://lake/x",
            7,
            ["target.path", "a folder of this machine", "s3://bucket/prefix", "abfss://container@account"],
        ),
        ("path: ./lakehouse", "path: s3://lake/x", 6, ["checkpoints must name a folder", "./checkpoints"]),
        (
            "path: ./lakehouse",
            "path: s3://lake/x\n  checkpoints: gs://lake/y",
            8,
            ["target.checkpoints", "use one"],
        ),
        (
            "path: ./lakehouse",
            "path: ./lake\n  checkpoints: s3://lake/y",
            6,
            ["checkpoints can be in a store where path is"],
        ),
        ("path: ./lakehouse", "path: ./lakehouse\n  storage: {}", 6, ["storage is of a path in a store"]),
        (
            "path: ./lakehouse",
            "path: s3://lake/x\n  checkpoints: x\n  storage: {account_key: '${env:SHOP_PASSWORD}'}",
            6,
            ["storage.account_key is not of a place such as s3://bucket/prefix"],
        ),
        (
            "path: ./lakehouse",
            "path: abfss://lake@ourstore.dfs.core.windows.net/x\n  checkpoints: s3://lake/x",
            6,
            ["checkpoints can be in a store where path is", "of the same kind"],
        ),
        ('["shop.*", "!shop.audit"]', "[]", 5, ["source.tables"]),
        ("{exclude: [password_hash]}", "{scd: 3}", 11, ["scd", "1 or 2"]),
        ("{exclude: [password_hash]}", "{sdc: 1}", 11, ["did you mean scd?"]),
        ("{exclude: [password_hash]}", "{masks: {email: hsh}}", 11, ["masks", "email: expected null, hash, {keep"]),
        ("{exclude: [password_hash]}", "{masks: {email: {keep_last: 0}}}", 11, ["email: expected", "above zero"]),
        ("  tables: [", "  mask_salt: hunter2\n  tables: [", 5, ["source.mask_salt", "by reference"]),
        ("name: shop", "name: shop\nmode: fast", 2, ["mode", "unknown key"]),
        ("name: shop", "name: [", 3, ["not YAML"]),
    ],
)
def test_an_error_names_its_line(tmp_path: Path, old: str, new: str, line: int, words: list[str]) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, GOOD.replace(old, new, 1)))
    text = str(caught.value)
    assert f"pipeline.yml:{line}" in text
    assert all(word in text for word in words)
    assert "hunter2" not in text
    assert "hunter2" not in repr(caught.value)
    assert "\n" not in text


def test_settings_take_the_place_of_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, GOOD)
    monkeypatch.setenv("OTHER", "hunter2")
    settings = [
        "source.url=mysql://a=b@db:3307", "source.tables=[a.b, 'c.*']", "source.password=${env:OTHER}",
        "target.metrics=true", "tables.shop.customer.exclude=[]", "tables.a.*.scd=2", "name=first", "name=shop2",
    ]  # fmt: skip
    config = load(path, settings)
    assert (config.name, config.source.url) == ("shop2", "mysql://a=b@db:3307")
    assert (config.source.tables, config.target.metrics) == (("a.b", "c.*"), True)
    assert config.source.password.reveal() == "hunter2"
    assert config.excluded("shop.customer") == ("notes",)
    assert config.policy("a.b").form is HISTORY
    assert load(path).name == "shop"
    assert load(path, ["source.url=", "source.tables= ", "name=", "target.silver="]) == load(path)  # a job's parameters
    bare = write(tmp_path, GOOD[: GOOD.index("tables:\n  shop")])
    assert load(bare, ["tables.shop.*.scd=2"]).policy("shop.orders").form is HISTORY


@pytest.mark.parametrize(
    ("setting", "where", "words"),
    [
        ("source.tabels=[a]", "--set source.tabels", ["unknown key", "did you mean tables?"]),
        ("source.password=hunter2", "--set source.password", ["by reference"]),
        ("source.chunk_rows=-1", "--set source.chunk_rows", ["greater than 0"]),
        ("source.chunk_rows=many", "--set source.chunk_rows", ["whole number"]),
        ("tables.shop.*.scd=3", "--set tables.shop.*.scd", ["1 or 2"]),
        ("name.first=shop", "--set name.first", ["name has no keys"]),
        ("source.tables=[hunter2", "--set source.tables", ["not YAML"]),
        ("source.url={{job.parameters.hunter2}}", "--set source.url", ["not YAML"]),
        ("source.chunk_rows", "--set", ["is no setting"]),
        ("=5", "--set", ["is no setting"]),
        ("name=''", "--set name", []),
        ("source.url=null", "--set source.url", []),
        ("target.path=null", "--set target.path", ["path", "catalog"]),
    ],
)
def test_a_setting_that_does_not_fit(tmp_path: Path, setting: str, where: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, GOOD), [setting])
    assert caught.value.where.endswith(where)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "hunter2" not in text
    assert "\n" not in text


MASKED = """\
  shop.people: {include: [name, email, phone, notes], masks: {email: hash, phone: {keep_last: 4}, notes: null}}
  "shop.*": {masks: {ssn: "null"}}
"""


def test_masks_and_what_is_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"source\.mask_salt must be given"):
        load(write(tmp_path, GOOD + MASKED))
    salted = GOOD.replace("source:\n", "source:\n  mask_salt: ${env:SHOP_SALT}\n")
    config = load(write(tmp_path, salted + MASKED))
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    monkeypatch.setenv("SHOP_SALT", "0123456789abcdef")
    options = source_options(config, tmp_path, str(tmp_path))
    found = SourceOptions.parse(options)
    assert found.mask_salt == "0123456789abcdef"
    assert found.choice.masks == {
        "shop.people": {"email": f"hash:{fingerprint('0123456789abcdef')}", "phone": "keep:0:4", "notes": "null"},
        "shop.*": {"ssn": "null"},
    }
    assert found.choice.include == {"shop.people": ("name", "email", "phone", "notes")}
    assert choice(config).named() == found.choice.named()
    assert "0123456789abcdef" not in f"{config!r} {found!r}"
    monkeypatch.setenv("SHOP_SALT", "hunter2")
    with pytest.raises(ConfigError, match="the salt of masks is too short") as caught:
        SourceOptions.parse(source_options(config, tmp_path, str(tmp_path)))
    assert "hunter2" not in repr(caught.value)


def test_properties_of_silver_tables(tmp_path: Path) -> None:
    rules = """\
  "shop.*": {properties: {delta.enableChangeDataFeed: true, delta.checkpointInterval: 50}}
  shop.orders: {properties: {delta.checkpointInterval: 20}}
"""
    config = load(write(tmp_path, GOOD + rules))
    feed = {"delta.enableChangeDataFeed": "true"}
    assert config.policy("shop.orders").properties == feed | {"delta.checkpointInterval": "20"}
    assert config.policy("shop.items").properties == feed | {"delta.checkpointInterval": "50"}
    assert config.policy("other.items").properties == {}
    for name in ("delta.columnMapping.mode", "delta.appendonly", "lakehouse_cdc.schema", "delta.feature.rowTracking"):
        with pytest.raises(ConfigError, match=f"{name} is set by lakehouse-cdc itself"):
            load(write(tmp_path, GOOD + f"  shop.orders: {{properties: {{{name}: none}}}}\n"))


def test_columns_that_silver_is_clustered_by(tmp_path: Path) -> None:
    rules = """\
  "shop.*": {cluster_by: [city, _commit_ts]}
  shop.items: {cluster_by: []}
  shop.part_*: {into: parts}
"""
    config = load(write(tmp_path, GOOD + rules))
    assert config.policy("shop.orders").cluster_by == ("city", "_commit_ts")
    assert config.policy("shop.items").cluster_by == config.policy("other.items").cluster_by == ()
    with pytest.raises(ConfigError, match=r"into: .* is not clustered"):
        config.policy("shop.part_1")
    with pytest.raises(ConfigError, match="at most 4"):
        load(write(tmp_path, GOOD + "  shop.orders: {cluster_by: [a, b, c, d, e]}\n"))


@pytest.mark.parametrize(
    ("path", "folder"),
    [("file:///lake/shop/", "/lake/shop"), ("file:///lake/a.b=c", "/lake/a.b=c"), ("/lake/shop", "/lake/shop")],
)
def test_a_folder_may_be_given_as_a_url(tmp_path: Path, path: str, folder: str) -> None:
    pipeline = Pipeline.from_yaml(write(tmp_path, GOOD.replace("./lakehouse", path)))
    assert pipeline.layout.path == folder
    assert pipeline.checkpoints == f"{folder}/_checkpoints/shop"


def test_a_store_whose_client_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = "abfss://lake@ourstore.dfs.core.windows.net/shop"
    file = write(tmp_path, GOOD.replace("./lakehouse", f"{lake}\n  checkpoints: {tmp_path}"))
    assert Pipeline.from_yaml(file).layout.path == lake
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match="obstore") as lacking:
        Pipeline.from_yaml(file)
    assert lacking.value.code is codes.PACKAGE_MISSING
    assert "pip install" in lacking.value.hint


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(tmp_path / "nothing.yml")


def test_secrets_are_revealed_only_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pw").write_text("pässword\n")
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")
    assert Secret(f"${{file:{tmp_path}/pw}}").reveal() == "pässword"
    assert Secret("${env:SHOP_PASSWORD}").reveal() == "s3cret"
    config = load(write(tmp_path, GOOD))
    assert "s3cret" not in repr(config)
    monkeypatch.delenv("SHOP_PASSWORD")
    with pytest.raises(ConfigError, match="SHOP_PASSWORD is not set"):
        config.source.password.reveal()


def test_the_last_pattern_that_says_it_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = """\
  "shop.*": {dropped_columns: drop, schema_changes: stop}
  shop.orders: {exclude: [note]}
  shop.lines: {dropped_columns: keep, schema_changes: evolve}
  shop.items: {schema_changes: freeze, dropped_columns: keep, changed_types: beside}
  shop.wrong: {changed_types: beside}
  "old.*": {scd: 2, track: [a, b]}
  old.gone: {dropped_columns: drop}
  old.anew: {changed_types: rewrite}
  new.lines: {track: [a]}
  new.items: {deletes: soft}
  old.items: {deletes: soft}
"""
    config = load(write(tmp_path, GOOD + rules))
    assert [config.policy(f"shop.{table}").drops for table in ("orders", "lines", "customer")] == [True, False, True]
    assert config.policy("other.orders") == Policy(engine="auto")
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    options = SourceOptions.parse(source_options(config, tmp_path, str(tmp_path)))
    assert [options.stops(f"shop.{table}") for table in ("orders", "lines", "items")] == [True, False, False]
    assert config.policy("shop.items") == Policy(engine="auto", beside=True, freezes=True)
    with pytest.raises(ConfigError, match=r"beside keeps columns that .* drops \[tables\.shop\.wrong\]"):
        config.policy("shop.wrong")
    assert config.policy("old.orders") == Policy(engine="auto", beside=True, form=HISTORY, track=("a", "b"))
    assert config.policy("old.gone") == Policy(engine="auto", drops=True, form=HISTORY, track=("a", "b"))
    assert config.policy("old.anew") == Policy(engine="auto", form=HISTORY, track=("a", "b"))
    assert config.policy("new.items") == Policy(engine="auto", form=SOFT_DELETES)
    with pytest.raises(ConfigError, match=r"soft marks rows .* ended versions \[tables\.old\.items\]"):
        config.policy("old.items")
    with pytest.raises(ConfigError, match=r"without scd: 2 there are none \[tables\.new\.lines\]"):
        config.policy("new.lines")


def test_tables_without_a_primary_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "x")
    log = "  shop.log: {append: true}\n  shop.bad: {append: true, key: [a]}\n  shop.worse: {append: true, scd: 2}\n"
    config = load(write(tmp_path, GOOD + "  shop.keyed: {key: [a, b]}\n" + log))
    assert config.policy("shop.log").form is APPEND
    assert config.policy("shop.keyed").form is CURRENT
    keys = {"shop.keyed": ["a", "b"], "shop.log": [], "shop.bad": ["a"], "shop.worse": []}
    assert json.loads(source_options(config, tmp_path, "s")["keys"]) == keys
    for name, what in (("bad", "key"), ("worse", "scd: 2")):
        with pytest.raises(ConfigError, match=f"append only ever adds rows, {what} is about"):
            config.policy(f"shop.{name}")
    with pytest.raises(ConfigError, match="of one source table alone"):
        load(write(tmp_path, GOOD + "  shop.log: {append: true, into: logs}\n")).policy("shop.log")
