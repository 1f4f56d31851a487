"""The JSON schema of `pipeline.yml` and the loader accept the same configurations, and every option is in both.

`VALUES` has for each option at least one value that it can have, which is checked; every other pair of an option and a
value must be judged alike by both. What one key allows may depend on others, so random configurations are judged, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.model.place import is_url, kind_of
from lakehouse_cdc.pipeline.config.file import load
from lakehouse_cdc.pipeline.config.model import TABLE, PipelineConfig
from lakehouse_cdc.pipeline.config.reference import json_schema
from lakehouse_cdc.sinks.registry import SINKS
from lakehouse_cdc.source.options import BY_PATTERN, OPTIONS, PLAIN
from tests.support.documents import ROOT

BASE = {
    "name": "shop",
    "source": {"url": "mysql://cdc@db:3306", "tables": ["shop.*"], "mask_salt": "${env:SALT}"},
    "target": {"path": "./lakehouse", "bronze": "bronze", "silver": "silver"},
}
TOPICS = {"kafka": {"bootstrap_servers": "b:9092", "topics": ["shop.t"], "format": "debezium-json"}}
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, -1, 2.0, 1.5, 0.0, 10**400, "", "a", "text", "1", "yes", "a/b", "{table}",
    "shop_{table}_x", "initial", "fail", "gtid", "null", "native", "required", "evolve", "soft", "drop", "beside",
    "history", "auto", "reread", "skip", "6000-6063",
    "6000-", "mysql://cdc@db:3306", "mysql://cdc:pw@db", "mysql://cdc@db/?a:b",
    "mysql://cdc@db:3306,db2", "mysql://cdc@db,", "mysql://cdc@db,cdc@db2", ["mysql://cdc@db", "db2"], "follow",
    ["mysql://cdc@db", "mysql://cdc@db2:3306/"], "mysql://cdc@db/shop", "mysql://db", "mysql://cdc@db:x",
    "mysql://cdc@[::1]:3306", "postgres://cdc@db", "${env:PW}",
    "${env:}", "${secret:a/b}", "${secret:a}", "${file:/p}x", [], ["a"], ["a", "a"], ["a", 1], [None], ["counting"],
    ["a", "b", "c", "d", "e"], {}, {"a": None}, {"a": "hash"}, {"a": "text"}, {"a": "op_ts"}, {"a": "b"}, {"a": 1},
    {"a": {"keep_first": 1}}, {"a": {"keep_first": 0}}, {"a": {"keep_first": 0, "keep_last": 65535}},
    {"a": {"keep_last": 65536}}, {"a": {"keep_last": 2.0}}, {"a": {"keep": 1}}, {"a": {}}, {"a": []}, {"a": 1.5},
    {"delta.appendOnly": True}, {"DELTA.FEATURE.x": "y"}, {"delta.enableChangeDataFeed": True}, {"a": {"scd": 2}},
    {"a": {"scd": True}}, {"a": {"sdc": 1}}, "cdc_", "_" * 33, "1s", "0s", "0.5m", "500ms", "2 h", ".5s",
    "1.0000s", "3d", "32MB", "1GiB", "512KB", "0MB", "32 MB", "32mb",
    "s3a://lake/x", "file:///lake", "dbfs:/lake", "/Volumes/main/cdc", "C:/lake",
    "s3://lake/a.b/c=d/", "s3://lake", "s3://Lake/x", "s3://lake/../x", "s3://lake//x", "s3n://lake/x", "s3://lake/a b",
    "abfss://lake@store1.dfs.core.windows.net/x", "abfs://lake@store1.dfs.core.windows.net", "abfss://lake/x",
    "abfss://l@store1.dfs.core.windows.net/x", "abfss://lake@Store.dfs.core.windows.net/x", "gs://lake/x", "gs://la",
    "file:///lake/x y", "file://lake/x", {"account_key": "${env:A}"}, {"account_key": "A"}, {"account_key": ""},
    "https://store:9000", "http://127.0.0.1:9000/", "http://key:secret@store", "eu-central-1",
    "arn:aws:iam::123456789012:role/lake", "arn:aws:iam::12:role/lake", {"region": "eu-central-1"},
    {"access_key": "${env:A}"}, {"access_key": "${env:A}", "secret_key": "${env:B}"},
    {"access_key": "", "secret_key": ""},
    "position", "arrival", "${connection:shop}", "${connection:a/b}",
    "at_least_once", "debezium-avro", "http://registry:8081", "https://u@registry",
    "canal-json", "compact", "sasl_ssl", {"acks": 0}, {"Cleanup.Policy": "delete"}, {"a b": {}},
    {"a": {"kafka": {"bootstrap_servers": "b:9092"}}}, {"a": {"kafka": {}}},
    "now", "earliest", "never", {"time": "2026-01-31T12:00:00Z"}, {"time": "2026-13-01T12:00:00Z"},
    {"time": "2026-01-31"}, {"position": "bin.000042:4"}, {"position": "bin:4"}, {"position": "a", "gtid": "b"},
    "ssh://hop@bastion", "ssh://hop@[::1]:22/", "ssh://hop:pw@bastion", "ssh://bastion",
    "spark://h:7077", "local[4]", "local[x]", "yarn", "k8s://https://h", "local-cluster[2,1,512]", ["env.tar.gz#env"],
    {"spark.executor.memory": "8g", "spark.executor.cores": 2, "a": False}, {"spark.Master": "yarn"},
    {"gtid": "0-1-42"}, {"gtid": ""}, {"gtid": 1}, 65535, 65536, "127.0.0.1", "shop.prom", "shop.txt",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def sink() -> Iterator[None]:
    """A name for `target.sinks`."""

    def none(*_: Any) -> Any:
        raise AssertionError

    SINKS["counting"] = none
    yield
    del SINKS["counting"]


def schema() -> Draft202012Validator:
    return Draft202012Validator(json.loads(json_schema()))


def loads(config: Any) -> bool:
    try:
        PipelineConfig.parse(config)
    except ConfigError:
        return False
    return True


def with_value(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The configuration with a value for an option of the table."""
    found = deepcopy(config)
    if found["source"] == BASE["source"] and (path.startswith("source.kafka.") or path.endswith(".columns")):
        found["source"] = deepcopy(TOPICS)
    if path.startswith("target.storage"):
        found["target"] |= {"path": "s3://lake/shop", "checkpoints": "checkpoints"}
        if not isinstance(found["target"].get("storage"), dict):
            found["target"]["storage"] = {"access_key": "${env:A}", "secret_key": "${env:B}"}
    *above, key = path.split(".") if path.startswith(("source", "target", "run", "spark.")) else [path]
    if path.startswith("tables."):
        above, key = ["tables", "shop.*"], path.rpartition(".")[2]
    if path.startswith("sinks."):
        above, key = ["sinks", "events", "kafka"], path.rpartition(".")[2]
        found.setdefault("sinks", {"events": {"kafka": {"bootstrap_servers": "b:9092"}}})
    section = found
    for part in above:
        section = section.setdefault(part, {})
    section[key] = value
    return found


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json.loads(json_schema()))


@pytest.mark.parametrize(
    "path",
    [
        *(option.path for option in TABLE),
        "source",
        "target",
        "tables",
        "sinks",
        "tables.<pattern>.unknown",
        "source.unknown",
    ],
)
def test_each_value_of_each_option_is_judged_alike(path: str) -> None:
    validator, accepted = schema(), []
    for value in VALUES:
        config = with_value(BASE, path, value)
        assert loads(config) == validator.is_valid(config), (path, value)
        accepted += [value] if loads(config) else []
    assert len(accepted) < len(VALUES)
    assert bool(accepted) != path.endswith("unknown") or path in ("source", "target")


KEYS = {"access_key": "${env:A}", "secret_key": "${env:B}"}
ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake"}


ACCOUNT = {"account_key": "${env:A}"}
ABFS = "abfss://lake@store1.dfs.core.windows.net/shop"


CHECKPOINTS = ["./kept", "s3://lake/kept", "s3a://other/a/b/", "gs://lake/kept", ABFS, "file:///kept", None]
STORAGES: list[Any] = [None, {}, KEYS, ROLE, KEYS | ROLE, ROLE | {"access_key": ""}, ACCOUNT, ACCOUNT | ROLE]


@pytest.mark.parametrize("path", ["./lakehouse", "s3://lake/shop", ABFS, "gs://lake/shop", "file:///lake", None])
def test_checkpoints_in_a_store_are_judged_alike(path: str | None) -> None:
    validator = schema()
    for checkpoints, storage in product(CHECKPOINTS, STORAGES):
        target = {"path": path, "checkpoints": checkpoints, "storage": storage, "bronze": "bronze"}
        config = {**BASE, "target": {key: value for key, value in target.items() if value is not None}}
        accepted = loads(config)
        assert accepted == validator.is_valid(config), target
        if is_url(checkpoints) or (is_url(path) and checkpoints is not None):
            allowed = {"s3": storage not in (ACCOUNT, ACCOUNT | ROLE), "abfs": storage in (None, {}, ACCOUNT)}
            kinds = [kind_of(one) for one in (path, checkpoints) if one is not None and is_url(one)]
            both_keys = is_url(checkpoints) and storage == KEYS | ROLE
            elsewhere = str(checkpoints).startswith("gs:") or not is_url(path) or len({*kinds}) > 1
            assert accepted == (not elsewhere and allowed[kinds[0]] and not both_keys), target


@given(
    st.dictionaries(st.sampled_from([option.path for option in TABLE]), st.sampled_from(VALUES), max_size=4),
    st.sets(st.sampled_from(["name", "source", "target"]), max_size=1),
)
def test_random_configurations_are_judged_alike(values: dict[str, Any], lacking: set[str]) -> None:
    config = deepcopy(BASE)
    for path, value in values.items():
        config = with_value(config, path, value)
    for part in lacking:
        del config[part]
    assert loads(config) == schema().is_valid(config)


RELATED = [
    "source.mask_salt", "tables.<pattern>.masks", "target.path", "target.catalog", "target.checkpoints",
    "target.storage", "target.storage.access_key", "target.storage.secret_key", "target.storage.account_key",
]  # fmt: skip
OF_THESE = [
    None, "", "a", "${env:S}", {"a": "hash"}, {"a": None}, "s3://lake/x", {}, {"region": "a"}, "gs://lake/x",
    "abfss://lake@store1.dfs.core.windows.net/x", "file:///lake",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(RELATED), st.sampled_from(OF_THESE)))
def test_keys_that_depend_on_each_other_are_judged_alike(values: dict[str, Any]) -> None:
    config = deepcopy(BASE)
    for path, value in values.items():
        config = with_value(config, path, value)
    assert loads(config) == schema().is_valid(config)


@pytest.mark.parametrize("name", ["bundles/pipeline.yml", "bundles/pipeline.dev.yml"])
def test_the_project_s_own_configurations_are_valid(name: str, tmp_path: Path) -> None:
    load(ROOT / name)
    assert [*schema().iter_errors(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")))] == []


def test_every_option_of_the_source_can_be_set_in_the_file() -> None:
    """But for those that the pipeline sets itself."""
    in_the_file = {option.spark for option in TABLE if option.spark}
    assert {option.spark for option in OPTIONS.values()} - in_the_file == {
        "schemaFolder", "storageSecret", "asOf", "filesTo", "splits",
    }  # fmt: skip
    assert len(OPTIONS) == len(PLAIN) + len(BY_PATTERN)
    assert {"source.plan_seconds", "source.split_bytes", "source.idle_seconds"} <= {option.path for option in TABLE}


def test_only_secrets_are_secret() -> None:
    assert [option.path for option in TABLE if option.secret] == [
        "source.password", "source.tls_key", "source.tls_key_password", "source.ssh_key", "source.ssh_key_password",
        "source.ssh_password", "source.mask_salt", "source.kafka.password", "source.kafka.key_password",
        "source.kafka.registry_password",
        "target.storage.access_key", "target.storage.secret_key", "target.storage.account_key",
        "sinks.<name>.kafka.password", "sinks.<name>.kafka.key_password", "sinks.<name>.kafka.registry_password",
    ]  # fmt: skip
