"""Codes 1xxx: a configuration, or a command line, is corrected as the error says, and then it works."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER, READER_PASSWORD
from tests.remedies import remedy
from tests.remedies.conftest import Write, filled
from tests.support.commands import call
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

Options = dict[str, str | None]  # of the source; None leaves one out
Settings = dict[str, Any]  # of the file, by their paths


# ---------------------------------------------------------------- options of a stream


@dataclass(frozen=True)
class OfStream:
    """Options that are wrong, and what the words of the hint, which match `hint`, make of them."""

    code: Code[Any]
    wrong: Options
    hint: str
    right: Callable[[re.Match[str]], Options]


STREAMS = {
    "a value": OfStream(
        codes.OPTION_INVALID, {"settle": "fast"}, r"expected (\w+), gtid", lambda hint: {"settle": hint[1]}
    ),
    "a number": OfStream(
        codes.OPTION_INVALID, {"chunkRows": "-5"}, r"expected a number greater than 0", lambda _: {"chunkRows": "5"}
    ),
    "a name": OfStream(
        codes.OPTION_UNKNOWN, {"chunkRow": "3"}, r"did you mean (\w+)\?", lambda hint: {hint[1]: "3"}
    ),
    "no tables": OfStream(
        codes.OPTION_MISSING, {"tables": None}, r"Set the option\.", lambda _: {"tables": "{db}.*"}
    ),
    "a database in the url": OfStream(
        codes.URL_INVALID, {"url": "mysql://cdc@127.0.0.1:{port}/{db}"}, r"Write it as (mysql://)user(@)host:port\.",
        lambda hint: {"url": f"{hint[1]}cdc{hint[2]}127.0.0.1:{{port}}"},
    ),
    "a port that is none": OfStream(
        codes.URL_INVALID, {"url": "mysql://cdc@127.0.0.1:mysql"}, r"(mysql://)user(@)host:port",
        lambda hint: {"url": f"{hint[1]}cdc{hint[2]}127.0.0.1:{{port}}"},
    ),
    "a host that is none": OfStream(
        codes.URL_INVALID, {"url": "mysql://cdc@db..example:{port}"}, r"(mysql://)user(@)host:port",
        lambda hint: {"url": f"{hint[1]}cdc{hint[2]}127.0.0.1:{{port}}"},
    ),
    "one server id": OfStream(
        codes.SERVER_ID_INVALID, {"serverIds": "7-7"}, r"at least two ids between 1 and (\d+)",
        lambda hint: {"serverIds": f"{int(hint[1]) - 99}-{hint[1]}"},
    ),
    "an authority that nothing checks": OfStream(
        codes.TLS_SETTING_INVALID, {"tls": "required", "tlsCa": "{ca}"}, r"set tls: (verify-ca) or verify-identity",
        lambda hint: {"tls": hint[1], "tlsCa": "{ca}"},
    ),
    "no file of authorities": OfStream(
        codes.TLS_AUTHORITY_UNREADABLE, {"tls": "verify-ca", "tlsCa": "{ca}.none"}, "a PEM file with certificates",
        lambda _: {"tls": "verify-ca", "tlsCa": "{ca}"},
    ),
    "a key as the authority": OfStream(
        codes.TLS_AUTHORITY_UNREADABLE, {"tls": "verify-ca", "tlsCa": "{key}"}, "a PEM file with certificates",
        lambda _: {"tls": "verify-ca", "tlsCa": "{ca}"},
    ),
    "no file with the client's certificate": OfStream(
        codes.TLS_CERTIFICATE_UNREADABLE, {"tls": "required", "tlsCert": "{cert}.none", "tlsKeySecret": "{key_text}"},
        "a PEM file with certificates",
        lambda _: {"tls": "required", "tlsCert": "{cert}", "tlsKeySecret": "{key_text}"},
    ),
    "no key of the client's": OfStream(
        codes.TLS_CERTIFICATE_UNREADABLE, {"tls": "required", "tlsCert": "{cert}", "tlsKeySecret": "a key"},
        r"source\.tls_key be a reference to the PEM text of its private key",
        lambda _: {"tls": "required", "tlsCert": "{cert}", "tlsKeySecret": "{key_text}"},
    ),
    "a program that is none": OfStream(
        codes.PASSWORD_COMMAND_MISSING, {"password": None, "passwordCommand": '["printf cdc-secret"]'},
        r"as a list, (\[)program, argument, \.\.\.(\])",
        lambda hint: {"password": "", "passwordCommand": f'{hint[1]}"printf", "cdc-secret"{hint[2]}'},
    ),
    "a command that prints nothing": OfStream(
        codes.PASSWORD_COMMAND_OUTPUT, {"password": None, "passwordCommand": '["true"]'},
        r"print the password alone, on one line",
        lambda _: {"password": "", "passwordCommand": '["echo", "cdc-secret"]'},
    ),
    "an initial statement that could matter": OfStream(
        codes.INIT_COMMAND_INVALID, {"initCommands": """["SET time_zone = 'SYSTEM'", "SET ROLE NONE"]"""},
        r"Leave it out of source\.init_commands, which takes (SET ROLE)",
        lambda hint: {"initCommands": f'["{hint[1]} NONE"]'},
    ),
    "an initial statement that the server refuses": OfStream(
        codes.INIT_COMMAND_REFUSED, {"initCommands": '["SET ROLE nobody"]'}, r"correct source\.init_commands",
        lambda _: {"initCommands": '["SET ROLE NONE"]'},
    ),
    "an authority that is not given": OfStream(
        codes.TLS_FAILED, {"tls": "verify-ca"}, r"give its authority as source\.tls_ca",
        lambda _: {"tls": "verify-ca", "tlsCa": "{ca}"},
    ),
    "a host that nobody knows": OfStream(
        codes.HOST_UNKNOWN, {"url": "mysql://cdc@no-such-host.invalid:{port}"}, r"Correct the host in source\.url",
        lambda _: {"url": "mysql://cdc@127.0.0.1:{port}"},
    ),
    "a table without its database": OfStream(
        codes.SELECTION_INVALID, {"tables": "t"}, r'write database\.table, such as "shop\.(orders)"',
        lambda hint: {"tables": "{db}.t"},
    ),
    "a regular expression": OfStream(
        codes.SELECTION_UNMATCHED, {"tables": r"^{db}\..*$"}, r'write "(.*)"', lambda hint: {"tables": hint[1]}
    ),
    "exclusions alone": OfStream(
        codes.SELECTION_INVALID, {"tables": "!{db}.u"}, r'name some, such as "shop(\.\*)"',
        lambda hint: {"tables": f"{{db}}{hint[1]},!{{db}}.u"},
    ),
    "a misspelt table": OfStream(
        codes.SELECTION_UNMATCHED, {"tables": "{db}.tt"}, r"this user sees (\S+?)(?:, \S+)*; check the name",
        lambda hint: {"tables": hint[1]},
    ),
    "a proof of another server": OfStream(
        codes.SETTLE_UNAVAILABLE, {"settle": "snapshot"}, r"use (\w+), gtid", lambda hint: {"settle": hint[1]}
    ),
    "the lag of no replica": OfStream(
        codes.NOT_A_REPLICA, {"maxReplicaLagSeconds": "5"}, r"remove source\.max_replica_lag_seconds", lambda _: {}
    ),
    "the type of no column": OfStream(
        codes.TYPE_CHOICE_INVALID, {"types": '{"{db}.t": {"w": "text"}}'}, r"the table has id, (v)$", lambda _: {}
    ),
}  # fmt: skip


@remedy(
    codes.OPTION_INVALID, codes.OPTION_UNKNOWN, codes.OPTION_MISSING, codes.URL_INVALID, codes.SERVER_ID_INVALID,
    codes.TLS_SETTING_INVALID, codes.TLS_AUTHORITY_UNREADABLE, codes.TLS_FAILED, codes.HOST_UNKNOWN,
    codes.TLS_CERTIFICATE_UNREADABLE, codes.PASSWORD_COMMAND_MISSING, codes.PASSWORD_COMMAND_OUTPUT,
    codes.INIT_COMMAND_INVALID, codes.INIT_COMMAND_REFUSED,
    codes.SELECTION_INVALID, codes.SELECTION_UNMATCHED, codes.SETTLE_UNAVAILABLE, codes.NOT_A_REPLICA,
    codes.TYPE_CHOICE_INVALID,
)  # fmt: skip
@pytest.mark.parametrize("case", STREAMS.values(), ids=STREAMS)
def test_an_option_is_corrected(stage: Stage, case: OfStream) -> None:
    data = stage.server.directory / "data"
    files = {"ca": str(data / "ca.pem"), "key": str(data / "ca-key.pem"), "cert": str(data / "client-cert.pem")}
    files["key_text"] = (data / "client-key.pem").read_text()
    names = {"db": stage.database, "port": str(stage.server.port), **files}
    stage.create(rows=12)
    with pytest.raises(CdcError) as refused:
        attempt(stage, filled(case.wrong, names))
    assert refused.value.code is case.code, refused.value
    hint = re.search(case.hint, refused.value.hint)
    assert hint, refused.value.hint
    driver = stage.driver(**filled(case.right(hint), names))
    stage.snapshot(driver)
    stage.run("DELETE FROM t WHERE id = 10")
    stage.drain(driver)
    stage.same(driver)


def attempt(stage: Stage, wrong: Options) -> None:
    """A stream with such options, as far as it comes."""
    given = {**stage.options(), **wrong}
    driver = Driver({name: text for name, text in given.items() if text is not None})
    stage.drivers.append(driver)
    stage.snapshot(driver)


# ---------------------------------------------------------------- settings of the file


@dataclass(frozen=True)
class OfFile:
    """Settings that are wrong, and what the words of the hint, which match `hint`, make of them."""

    code: Code[Any]
    wrong: Settings
    hint: str
    right: Callable[[re.Match[str]], Settings]


FILES = {
    "a misspelt key": OfFile(
        codes.CONFIG_FILE_INVALID, {"target.bronze": None, "target.bronce": "bronze"}, r"did you mean (\w+)\?",
        lambda hint: {f"target.{hint[1]}": "bronze"},
    ),
    "a value of another kind": OfFile(
        codes.CONFIG_FILE_INVALID, {"source.tls": "always"}, r"Correct the setting that the error names",
        lambda _: {"source.tls": "required"},
    ),
    "a mask without a salt": OfFile(
        codes.CONFIG_FILE_INVALID, {"tables.{db}.t": {"masks": {"v": "hash"}}},
        r"Correct the setting that the error names",
        lambda _: {"tables.{db}.t": {"masks": {"v": "hash"}}, "source.mask_salt": "${env:SALT}"},
    ),
    "track without versions": OfFile(
        codes.SETTINGS_CONTRADICT, {"tables.{db}.t": {"track": ["v"]}}, r"choose one of the two",
        lambda _: {"tables.{db}.t": {"track": ["v"], "scd": 2}},
    ),
    "two forms": OfFile(
        codes.SETTINGS_CONTRADICT, {"tables.{db}.t": {"scd": 2, "deletes": "soft"}}, r"choose one of the two",
        lambda _: {"tables.{db}.t": {"scd": 2}},
    ),
    "a short salt": OfFile(
        codes.MASK_SALT_INVALID,
        {"tables.{db}.t": {"masks": {"v": "hash"}}, "source.mask_salt": "${env:SHORT_SALT}"},
        r"source\.mask_salt, \d+ random characters or more, such as openssl rand -hex 32 gives",
        lambda _: {"tables.{db}.t": {"masks": {"v": "hash"}}, "source.mask_salt": "${env:SALT}"},
    ),
    "the column of no table": OfFile(
        codes.COLUMN_CHOICE_UNMATCHED, {"tables.{db}.t": {"exclude": ["vv"]}}, r"they have (\w+)",
        lambda hint: {"tables.{db}.t": {"exclude": [hint[1]]}},
    ),
    "a key of no column": OfFile(
        codes.KEY_DECLARATION_INVALID, {"tables.{db}.k": {"key": ["c"]}}, r"it has (\w+), b",
        lambda hint: {"tables.{db}.k": {"key": [hint[1]]}},
    ),
    "a key of one column twice": OfFile(
        codes.KEY_DECLARATION_INVALID, {"tables.{db}.k": {"key": ["a", "A"]}},
        r"name each column once in tables\.\S+\.key",
        lambda _: {"tables.{db}.k": {"key": ["a"]}},
    ),
    "a key that may be NULL": OfFile(
        codes.KEY_DECLARATION_INVALID, {"tables.{db}.k": {"key": ["b"]}}, r"or choose other columns",
        lambda _: {"tables.{db}.k": {"key": ["a"]}},
    ),
    "a key beside the primary key": OfFile(
        codes.KEY_DECLARATION_INVALID, {"tables.{db}.t": {"key": ["v"]}}, r"take key out of tables\.", lambda _: {}
    ),
    "an integer as text": OfFile(
        codes.TYPE_CHOICE_INVALID, {"tables.{db}.t": {"types": {"v": "text"}}}, r"that is for (\w+)", lambda _: {}
    ),
    "the type of no column": OfFile(
        codes.TYPE_CHOICE_INVALID, {"tables.{db}.t": {"types": {"vv": "native"}}}, r"the table has id, (\w+)$",
        lambda hint: {"tables.{db}.t": {"types": {hint[1]: "native"}}},
    ),
    "a table that is not there": OfFile(
        codes.SELECTION_UNMATCHED, {"source.tables": ["{db}.T", "{db}.k"]}, r"write (\S+): upper and lower case differ",
        lambda hint: {"source.tables": [hint[1], "{db}.k"]},
    ),
    "a pattern that the others shut out": OfFile(
        codes.SELECTION_UNMATCHED, {"source.tables": ["{db}.*", "!{db}.?"]},
        r"without them there would be (\S+), (\S+)$",
        lambda hint: {"source.tables": ["{db}.*", f"!{hint[1]}"]},
    ),
    "a pattern for a view": OfFile(
        codes.SELECTION_UNMATCHED, {"source.tables": ["{db}.t", "{db}.seen"]}, r'leave out "(.*)"',
        lambda _: {"source.tables": ["{db}.t"]},
    ),
}  # fmt: skip


@remedy(
    codes.CONFIG_FILE_INVALID, codes.SETTINGS_CONTRADICT, codes.MASK_SALT_INVALID, codes.COLUMN_CHOICE_UNMATCHED,
    codes.KEY_DECLARATION_INVALID, codes.TYPE_CHOICE_INVALID, codes.SELECTION_UNMATCHED,
)  # fmt: skip
@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_a_setting_is_corrected(
    mysql_client: pymysql.Connection[Any], database: str, write: Write, monkeypatch: pytest.MonkeyPatch, case: OfFile
) -> None:
    mysql_client.cursor().execute(f"CREATE VIEW {database}.seen AS SELECT 1")
    salt = subprocess.run(["openssl", "rand", "-hex", "32"], capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("SALT", salt)
    monkeypatch.setenv("SHORT_SALT", "salt")
    refused = first_error("doctor", "-c", write(case.wrong))
    assert refused["code"] == case.code.label, refused
    hint = re.search(case.hint, refused["hint"])
    assert hint, refused["hint"]
    assert call(0, "doctor", "-c", write(case.right(hint)))["healthy"] is True


def first_error(*arguments: str | Path) -> Any:
    """What a command refuses, or what `doctor` has against the source."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code in (1, 2), result.output
    said = json.loads(result.stdout.splitlines()[-1])
    return said if result.exit_code == 2 else next(one for one in said["findings"] if one["severity"] == "error")


@remedy(codes.CONFIG_FILE_UNREADABLE)
def test_the_file_is_named(write: Write) -> None:
    file = write()
    refused = call(2, "doctor", "-c", "pipelines.yml")
    hint = "name the file with -c; lakehouse-cdc init --help says how one is drafted"
    assert (refused["code"], refused["hint"]) == (codes.CONFIG_FILE_UNREADABLE.label, hint)
    assert "Write a pipeline's file" in call(0, "init", "--help", as_json=False)
    call(0, "doctor", "-c", file)


@remedy(codes.CONFIG_FILE_INVALID)
def test_a_file_that_is_not_yaml(write: Write) -> None:
    file = write()
    text = file.read_text()
    file.write_text(text.replace("name: shop", "name: [shop"))
    refused = call(2, "doctor", "-c", file)
    assert refused["code"] == codes.CONFIG_FILE_INVALID.label
    line = int(refused["where"].rpartition(":")[2])
    assert "name: [shop" in "".join(file.read_text().splitlines()[line - 2 : line])
    file.write_text("")
    assert call(2, "doctor", "-c", file)["code"] == codes.CONFIG_FILE_INVALID.label
    file.write_text(text)
    call(0, "doctor", "-c", file)


@remedy(codes.SETTING_INVALID)
def test_a_setting_on_the_command_line(mysql: MySqlServer, write: Write) -> None:
    file = write({"source.url": "mysql://nobody@127.0.0.1:1"})
    refused = call(2, "doctor", "-c", file, "--set", mysql.url)
    assert refused["code"] == codes.SETTING_INVALID.label
    example = re.fullmatch(r"write it as (source\.url=)mysql://cdc@db", refused["hint"])
    assert example, refused["hint"]
    url = f"{example[1]}{mysql.url}"
    call(0, "doctor", "-c", file, "--set", url)
    refused = call(2, "doctor", "-c", file, "--set", url, "--set", "tables.*.t.filter=@a")
    assert (refused["code"], refused["hint"]) == (
        codes.SETTING_INVALID.label, "put it in quotes, as YAML has them",
    )  # fmt: skip
    call(0, "doctor", "-c", file, "--set", url, "--set", "tables.*.t.filter='v > 0'")
    refused = call(2, "doctor", "-c", file, "--set", url, "--set", "name.of=shop")
    assert (refused["code"], refused["hint"]) == (codes.SETTING_INVALID.label, "write it as name=...")
    call(0, "doctor", "-c", file, "--set", url, "--set", "name=shop")


@remedy(codes.SECRET_UNREADABLE)
def test_a_secret_is_put_where_it_is_looked_for(
    mysql: MySqlServer, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = {"source.url": mysql.url.replace("root", READER)}
    monkeypatch.delenv("READERS_PASSWORD", raising=False)
    refused = call(2, "doctor", "-c", file := write({**reader, "source.password": "${env:READERS_PASSWORD}"}))
    assert refused["code"] == codes.SECRET_UNREADABLE.label
    export = re.fullmatch(r"export (\w+)=\.\.\.", refused["hint"])
    assert export, refused["hint"]
    monkeypatch.setenv(export[1], READER_PASSWORD)
    call(0, "doctor", "-c", file)
    refused = call(2, "doctor", "-c", file := write({**reader, "source.password": f"${{file:{tmp_path}/secret}}"}))
    assert refused["code"] == codes.SECRET_UNREADABLE.label
    place = re.search(r"the secret's file (\S+):", refused["error"])
    assert place, refused["error"]
    assert "at the place that the error names" in refused["hint"]
    Path(place[1]).write_text(f"{READER_PASSWORD}\n")
    call(0, "doctor", "-c", file)


# ---------------------------------------------------------------- commands


@remedy(codes.COMMAND_MISUSED)
def test_the_arguments_of_a_command(write: Write) -> None:
    file = write()
    refused = call(2, "config")
    assert refused["code"] == codes.COMMAND_MISUSED.label
    assert "--schema" in shown(refused["hint"])
    call(0, "config", "--config", file)
    refused = call(2, "signal", "-c", file, "pause", "shop.t")
    assert (refused["code"], refused["error"]) == (codes.COMMAND_MISUSED.label, "pause takes nothing more")
    assert "For snapshot: tables" in shown(refused["hint"])
    assert call(0, "signal", "-c", file, "pause") == {"paused": True}
    for wrong in (["snapshot"], ["pass"], ["resume", "--where", "v = 1"]):
        refused = call(2, "signal", "-c", file, *wrong)
        assert refused["code"] == codes.COMMAND_MISUSED.label
        assert "pause the pipeline; resume it" in shown(refused["hint"])
    assert call(0, "signal", "-c", file, "resume") == {"paused": False}


def shown(hint: str) -> str:
    """What the command prints that a hint begins with, in one line."""
    command = re.match(r"lakehouse-cdc ([\w -]+ --help)", hint)
    assert command, hint
    said = CliRunner().invoke(app, command[1].split())
    assert said.exit_code == 0
    return " ".join(re.sub(r"[^\x20-\x7e]", " ", said.output).split())


@remedy(codes.DRAFT_SETTING_INVALID, codes.DRAFT_PLACE_UNUSABLE)
def test_a_bundle_of_what_was_given(
    mysql: MySqlServer, database: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    monkeypatch.setenv("ROOTS_PASSWORD", "")
    source = ["--url", mysql.url, "--catalog", "lake"]
    init = ["bundle", "init", *source, "--tables", f"{database}.*"]
    folder = tmp_path / "bundle"
    refused = call(2, "bundle", "init", *source, "--tables", "*.t", folder)
    assert refused["code"] == codes.DRAFT_SETTING_INVALID.label
    option = re.fullmatch(r"give the pipeline a (--name)", refused["hint"])
    assert option, refused["hint"]
    call(0, "bundle", "init", *source, "--tables", f"{database}.*", option[1], "shop", tmp_path / "named")
    refused = call(2, *init, "--password-ref", "s3cret", folder)
    assert (refused["code"], refused["hint"]) == (codes.DRAFT_SETTING_INVALID.label, "${secret:scope/key}")
    assert "s3cret" not in str(refused)
    secret = ["--password-ref", refused["hint"], "--password-env", "ROOTS_PASSWORD"]
    call(0, *init, *secret, tmp_path / "with a secret")
    refused = call(2, *init, "--wheel", tmp_path / "none.whl", folder)
    assert refused["code"] == codes.DRAFT_SETTING_INVALID.label
    place = re.search(r"or name one in (/Volumes/)", refused["hint"])
    assert place, refused["hint"]
    call(0, *init, "--wheel", f"{place[1]}lake/wheels/lakehouse_cdc.whl", tmp_path / "with a wheel")
    refused = call(2, *init, "--tls", "always", folder)
    assert refused["code"] == codes.DRAFT_SETTING_INVALID.label
    assert "--help" in refused["hint"]
    call(0, *init, "--tls", "required", folder)
    refused = call(2, *init, folder)
    assert (refused["code"], refused["hint"]) == (
        codes.DRAFT_PLACE_UNUSABLE.label, "choose another place, or move it away",
    )  # fmt: skip
    call(0, *init, tmp_path / "another")
    (tmp_path / "file").touch()
    refused = call(2, *init, tmp_path / "file" / "bundle")
    assert (refused["code"], refused["hint"]) == (codes.DRAFT_PLACE_UNUSABLE.label, "choose another place")
    call(0, *init, tmp_path / "still another")
