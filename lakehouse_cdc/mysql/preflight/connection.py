"""How the source is reached: through an SSH server or not, encrypted or not, and how the user is let in."""

from __future__ import annotations

from lakehouse_cdc.mysql.connection import ssh_tunnel
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.connection.tls import VERIFYING
from lakehouse_cdc.mysql.preflight.settings import Finding

_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def connection_findings(session: Session) -> list[Finding]:
    """A finding for each of these."""
    return [*_tunnel(session), _encryption(session), _authentication(session)]


def _tunnel(session: Session) -> list[Finding]:
    server = session.options.ssh
    if server is None:
        return []
    key = ssh_tunnel.fingerprint(server)
    return [Finding("ssh", "ok", f"through {server.where}, whose host key is known: {key}")]


def _encryption(session: Session) -> Finding:
    options = session.options
    cipher = session.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[1]
    here = options.host in _THIS_MACHINE
    if not cipher and here and options.ssh:
        return Finding("tls", "ok", "the connection is encrypted up to the SSH server, and does not leave that machine")
    if not cipher and here:
        return Finding("tls", "ok", "the connection is not encrypted; it does not leave this machine")
    if not cipher:
        what = "the connection is not encrypted: rows travel as plain text"
        what += ", from the SSH server on" if options.ssh else ""
        hint = "have the server offer TLS, and set source.tls: verify-identity (or required)"
        return Finding("tls", "warning", what, hint)
    checked = "its certificate is checked" if options.tls in VERIFYING else "its certificate is not checked"
    checked += ", ours is shown" if options.certificate else ""
    return Finding("tls", "ok", f"the connection is encrypted ({cipher}); {checked} (tls: {options.tls})")


def _authentication(session: Session) -> Finding:
    plugin, command = session.connection.login_plugin, session.options.password_command
    what = f"{session.options.user} comes in by {plugin}"
    what += f", the password by a command ({command.program})" if command else ""
    if plugin == "mysql_native_password" and not session.is_mariadb:
        what += ", which MySQL 9 does not have any more; caching_sha2_password is its successor"
    return Finding("authentication", "ok", what)
