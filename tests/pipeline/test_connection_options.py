"""From the file to how the source is reached: here, and in a task elsewhere that has the options alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.mysql.connection.password_command import PasswordCommand
from lakehouse_cdc.options.connection import SECRETS
from lakehouse_cdc.options.declaration import declared_in
from lakehouse_cdc.options.source import SourceConfig
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.config.source_options import check_alone, connection_options, source_options
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.testing.certificate import CERTIFICATE, KEY, write_certificate

KNOWN = "bastion ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB1DYMEnRYkCQ9qjuCgRJpzLnUVWhcLNTSyPNkfVcCVp"
SSH = {"ssh": "ssh://hop@bastion:2222", "ssh_key": "${env:SSH_KEY}", "ssh_known_hosts": "known"}
TLS = {
    "tls": "verify-identity",
    "tls_ca": CERTIFICATE,
    "tls_cert": CERTIFICATE,
    "tls_key": "${file:{home}/" + KEY + "}",
}
COMMAND = {"password_command": ["print-token", "--host={host}", "a, b"], "password_seconds": "90s"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the file, with the files that it names; the working directory is another one."""
    folder = tmp_path / "home"
    folder.mkdir()
    write_certificate(folder)
    (folder / "known").write_text(KNOWN)  # the last line without its end
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"{KNOWN}\n# of the user\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSH_KEY", "-----BEGIN KEY-----\nTHE SSH KEY\n")
    monkeypatch.setenv("PW", "THE PASSWORD")
    monkeypatch.chdir(tmp_path)
    return folder


def config(home: Path, **source: Any) -> PipelineConfig:
    given = {name: value.replace("{home}", str(home)) if isinstance(value, str) else value
             for name, value in source.items()}  # fmt: skip
    return PipelineConfig.parse({
        "name": "shop",
        "source": {"url": "mysql://cdc@db,db2:3307", "tables": ["shop.*"], **given},
        "target": {"path": "lake", "bronze": "bronze"},
    })  # fmt: skip


CASES: dict[str, dict[str, Any]] = {
    "a password": {"password": "${env:PW}"},
    "a command": COMMAND,
    "certificates": {**TLS, "password": "${env:PW}"},
    "initial statements": {"init_commands": ["SET ROLE reader", "SET sort_buffer_size = 1, join_buffer_size = 2"]},
    "an SSH server": {**SSH, "ssh_key_password": "${env:PW}"},
    "all": {**COMMAND, **TLS, **SSH, "init_commands": ["SET ROLE reader"]},
}


@pytest.mark.parametrize("case", CASES)
def test_a_task_is_given_what_the_pipeline_has(home: Path, case: str) -> None:
    made = config(home, **CASES[case])
    check_alone(made)
    here = connection_options(made, home)
    options = source_options(made, home, "schemas")
    for path in home.iterdir():
        path.unlink()  # a task on another machine has none of the files
    elsewhere = SourceOptions.parse(options)
    assert elsewhere.connection == here
    for secret in ("THE PASSWORD", "THE SSH KEY", "PRIVATE KEY"):
        assert secret not in repr(elsewhere)
        assert secret not in repr(made)
    if "password_command" in CASES[case]:
        assert here.password_command == PasswordCommand(("print-token", "--host={host}", "a, b"), 90.0)
    if "ssh" in CASES[case]:
        assert here.ssh is not None
        assert (here.ssh.host, here.ssh.port, here.ssh.known_hosts) == ("bastion", 2222, KNOWN + "\n")
        assert here.ssh.key.endswith("THE SSH KEY\n")


def test_the_user_s_own_known_hosts(home: Path) -> None:
    for given in ({}, {"ssh_known_hosts": "~/.ssh/known_hosts"}):
        made = config(home, **{**SSH, "ssh_known_hosts": None, **given})
        ssh = connection_options(made, home).ssh
        assert ssh is not None
        assert ssh.known_hosts == f"{KNOWN}\n# of the user\n\n"


def test_spark_shows_no_secret_option() -> None:
    """Of options whose names have one of these words, Spark shows no value (spark.redaction.regex)."""
    for option in declared_in(SourceConfig):
        if option.path in SECRETS:
            assert any(word in option.spark.lower() for word in ("secret", "password")), option.spark


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"password": "${env:PW}", **COMMAND}, codes.SETTINGS_CONTRADICT),
        ({"tls_cert": CERTIFICATE}, codes.SETTINGS_CONTRADICT),
        ({"tls_key": "${env:PW}"}, codes.SETTINGS_CONTRADICT),
        ({"tls_key_password": "${env:PW}"}, codes.SETTINGS_CONTRADICT),
        ({**TLS, "tls": "disabled", "tls_ca": None}, codes.TLS_SETTING_INVALID),
        ({"ssh_key": "${env:SSH_KEY}"}, codes.SETTINGS_CONTRADICT),
        ({"ssh_known_hosts": "known"}, codes.SETTINGS_CONTRADICT),
        ({"ssh_password": "${env:PW}"}, codes.SETTINGS_CONTRADICT),
        ({"ssh": "ssh://hop@bastion"}, codes.SSH_SETTING_INVALID),
        ({**SSH, "ssh_key": "", "ssh_password": "${env:PW}", "ssh_key_password": "${env:PW}"},
         codes.SETTINGS_CONTRADICT),
        ({"init_commands": ["SET time_zone = 'UTC'"]}, codes.INIT_COMMAND_INVALID),
    ],
)  # fmt: skip
def test_what_excludes_each_other(home: Path, source: dict[str, Any], code: Any) -> None:
    made = config(home, **source)
    for refuse in (lambda: check_alone(made), lambda: connection_options(made, home)):
        with pytest.raises(ConfigError) as refused:
            refuse()
        assert refused.value.code is code


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({**TLS, "tls_cert": "none.pem"}, codes.TLS_CERTIFICATE_UNREADABLE),
        ({**TLS, "tls_cert": KEY}, codes.TLS_CERTIFICATE_UNREADABLE),
        ({**TLS, "tls_key": "${env:PW}"}, codes.TLS_CERTIFICATE_UNREADABLE),
        ({**SSH, "ssh_known_hosts": "none"}, codes.SSH_SETTING_INVALID),
        ({**SSH, "ssh_key": "${env:NONE_SUCH}"}, codes.SECRET_UNREADABLE),
    ],
)
def test_files_that_cannot_be_read(home: Path, source: dict[str, Any], code: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        connection_options(config(home, **source), home)
    assert refused.value.code is code
    assert "THE PASSWORD" not in str(refused.value)


def test_without_the_extra(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> Any:
        return None if name == "asyncssh" else importlib.util.find_spec(name)

    monkeypatch.setattr("lakehouse_cdc.options.connection.find_spec", found)
    with pytest.raises(ConfigError) as refused:
        connection_options(config(home, **SSH), home)
    assert refused.value.code is codes.PACKAGE_MISSING
    assert refused.value.hint.startswith("pip install 'asyncssh")


def test_a_command_as_an_option_is_json() -> None:
    base = {"url": "mysql://cdc@db", "tables": "shop.*", "schemaFolder": "x"}
    given = SourceOptions.parse({**base, "passwordCommand": '["print-token", "a, b"]'})
    assert given.connection.password_command == PasswordCommand(("print-token", "a, b"))
    for text in ("print-token a", "print-token,a", '"print-token"', "[]", '["a", 1]'):
        with pytest.raises(ConfigError):
            SourceOptions.parse({**base, "passwordCommand": text})
