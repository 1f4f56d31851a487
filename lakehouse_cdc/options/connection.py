"""How the source is reached, made from its options: one place for the file and for the options of the Spark source.

The two differ in what is a reference and what is a value. The pipeline resolves the references and reads the files
once, where it starts (`resolved`), so that a task on another machine needs neither; what a command prints is asked for
by each process for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.mysql.connection.client_certificate import ClientCertificate
from lakehouse_cdc.mysql.connection.init_commands import checked
from lakehouse_cdc.mysql.connection.password_command import PasswordCommand
from lakehouse_cdc.mysql.connection.session import ConnectionOptions
from lakehouse_cdc.mysql.connection.ssh_tunnel import SshServer
from lakehouse_cdc.mysql.connection.tls import authorities, certificates, context
from lakehouse_cdc.options.secrets import server_url
from lakehouse_cdc.options.source import SourceConfig
from lakehouse_cdc.runtime.extras import installing

SECRETS = ("password", "tls_key", "tls_key_password", "ssh_key", "ssh_key_password", "ssh_password")
FILES = ("tls_ca", "tls_cert", "ssh_known_hosts")
_OWN_KNOWN_HOSTS = "~/.ssh/known_hosts"


def check_together(values: Mapping[str, Any]) -> None:
    """What options of the connection say against each other. Raises ConfigError.

    `values` are by the names that the file has; secrets may be references or values.
    """
    if values["password_command"] and values["password"]:
        raise _contradict("source.password and source.password_command are given", "leave one of them out")
    if bool(values["tls_cert"]) != bool(values["tls_key"]):
        raise _contradict("of source.tls_cert and source.tls_key one is given", "give both, or none")
    if values["tls_cert"] and values["tls"] == "disabled":
        raise codes.TLS_SETTING_INVALID.error(
            "tls_cert is given, and tls: disabled shows no certificate", hint="set tls: required, or remove tls_cert"
        )
    if values["tls_key_password"] and not values["tls_key"]:
        raise _contradict("source.tls_key_password is given, and no source.tls_key", "give both, or none")
    given = [name for name in ("ssh_key", "ssh_password", "ssh_key_password", "ssh_known_hosts") if values[name]]
    if given and not values["ssh"]:
        raise _contradict(f"source.{given[0]} is given, and no source.ssh", "give source.ssh, or remove it")
    if values["ssh"] and not (values["ssh_key"] or values["ssh_password"]):
        raise codes.SSH_SETTING_INVALID.error(
            "source.ssh is given, and neither source.ssh_key nor source.ssh_password", hint="give one of them"
        )
    if values["ssh_key_password"] and not values["ssh_key"]:
        raise _contradict("source.ssh_key_password is given, and no source.ssh_key", "give both, or none")
    checked(values["init_commands"])


def resolved(source: SourceConfig, home: Path) -> dict[str, Any]:
    """The options of the connection with secrets and texts of files in them; relative paths start at `home`.

    Raises ConfigError for options that exclude each other, and for a secret or a file that cannot be read.
    """
    check_together(vars(source))  # before anything is looked for that would not be used
    names = ("tls", "password_command", "password_seconds", "init_commands", "ssh")
    values: dict[str, Any] = {"url": server_url(source.url), **{name: getattr(source, name) for name in names}}
    values |= {name: getattr(source, name).reveal() for name in SECRETS}
    given = {name: getattr(source, name) or "" for name in FILES}
    paths = {name: str(home / Path(path).expanduser()) if path else "" for name, path in given.items()}
    values["tls_ca"] = authorities(paths["tls_ca"])
    values["tls_cert"] = certificates(paths["tls_cert"], "tls_cert", codes.TLS_CERTIFICATE_UNREADABLE)
    values["ssh_known_hosts"] = _known_hosts(paths["ssh_known_hosts"]) if source.ssh else paths["ssh_known_hosts"]
    return values


def connection_of(values: Mapping[str, Any]) -> ConnectionOptions:
    """How to reach the source, by options as `resolved` gives them. Raises ConfigError for what cannot be used."""
    check_together(values)
    options = ConnectionOptions.from_url(
        values["url"], password=str(values["password"]), tls=values["tls"], tls_ca=values["tls_ca"] or ""
    )
    command = values["password_command"]
    certificate = None
    if values["tls_cert"]:
        shown = certificates(values["tls_cert"], "tls_cert", codes.TLS_CERTIFICATE_UNREADABLE)
        certificate = ClientCertificate(shown, str(values["tls_key"]), str(values["tls_key_password"]))
        context(options.tls, options.tls_ca, certificate)  # now, not when a task connects
    return replace(
        options,
        password_command=PasswordCommand(tuple(command), values["password_seconds"]) if command else None,
        certificate=certificate,
        init_commands=tuple(values["init_commands"]),
        ssh=_ssh_server(values) if values["ssh"] else None,
    )


def _ssh_server(values: Mapping[str, Any]) -> SshServer:
    if find_spec("asyncssh") is None:
        raise codes.PACKAGE_MISSING.error("source.ssh needs asyncssh", where="source.ssh", hint=installing("ssh"))
    return SshServer.from_url(
        values["ssh"],
        known_hosts=_known_hosts(values["ssh_known_hosts"] or ""),
        key=str(values["ssh_key"]),
        key_password=str(values["ssh_key_password"]),
        password=str(values["ssh_password"]),
    )


def _known_hosts(given: str) -> str:
    """The text of a file of host keys, or that text itself, which has an end of a line, as no path has."""
    if "\n" in given:
        return given
    path = Path(given or _OWN_KNOWN_HOSTS).expanduser()
    try:
        return path.read_text(encoding="utf-8") + "\n"
    except (OSError, UnicodeDecodeError) as error:
        raise codes.SSH_SETTING_INVALID.error(
            f"source.ssh_known_hosts cannot be read: {path}", where="source.ssh_known_hosts",
            hint="a file with the SSH server's host key: ssh-keyscan prints it, its administrator confirms it",
        ) from error  # fmt: skip


def _contradict(what: str, hint: str) -> ConfigError:
    return codes.SETTINGS_CONTRADICT.error(what, where="source", hint=hint)
