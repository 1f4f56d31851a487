"""TLS modes and authentication plugins on every server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, Session, connect
from lakehouse_cdc.mysql.connection.tls import MODES, VERIFYING, Tls
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER, READER_PASSWORD

pytestmark = pytest.mark.every_server

_SECRET = "geheim-ß"
_PLUGINS = ("mysql_native_password", "caching_sha2_password", "sha256_password")


def options(server: MySqlServer, tls: Tls = "preferred", ca: Path | None = None) -> ConnectionOptions:
    url = server.url.replace("root", READER)
    return ConnectionOptions.from_url(url, password=READER_PASSWORD, tls=tls, tls_ca=str(ca) if ca else "")


def cipher(session: Session) -> str:
    return str(session.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[1])


def authority(server: MySqlServer) -> Path:
    """MySQL makes one with its data directory; MariaDB's certificate here is signed by itself."""
    found = [server.directory / "data" / name for name in ("ca.pem", "server-cert.pem")]
    return next(path for path in found if path.exists())


def offers_tls(server: MySqlServer) -> bool:
    return server.version != "mysql-5.7"  # that build knows TLS 1.1 at most


@pytest.mark.parametrize("tls", ["preferred", "disabled"])
def test_encrypted_where_the_server_can(any_server: MySqlServer, tls: Tls) -> None:
    with connect(options(any_server, tls)) as session:
        assert bool(cipher(session)) == (tls == "preferred" and offers_tls(any_server))


@pytest.mark.parametrize("tls", ["required", "verify-ca"])
def test_encrypted_or_refused(any_server: MySqlServer, tls: Tls) -> None:
    ca = authority(any_server) if tls == "verify-ca" and offers_tls(any_server) else None
    if offers_tls(any_server):
        with connect(options(any_server, tls, ca)) as session:
            assert cipher(session)
    else:
        with pytest.raises(DefiniteError, match="2026"):
            connect(options(any_server, tls))


def test_the_identity_is_the_name_in_the_url(any_server: MySqlServer) -> None:
    if not offers_tls(any_server):
        with pytest.raises(DefiniteError, match="2026"):
            connect(options(any_server, "verify-identity"))
    elif any_server.version.startswith("mariadb"):
        with connect(options(any_server, "verify-identity", authority(any_server))) as session:
            assert cipher(session)
    else:  # the name that MySQL writes into its own certificate is no host
        with pytest.raises(DefiniteError, match="not to be trusted") as caught:
            connect(options(any_server, "verify-identity", authority(any_server)))
        assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize("tls", VERIFYING)
def test_a_certificate_of_another_authority_is_refused(mysql: MySqlServer, other_authority: Path, tls: Tls) -> None:
    for ca in (other_authority, None):  # None: the system's
        with pytest.raises(DefiniteError, match="not to be trusted"):
            connect(options(mysql, tls, ca))


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from lakehouse_cdc.testing.certificate import CERTIFICATE, write_certificate

    folder = tmp_path_factory.mktemp("certificate")
    write_certificate(folder)
    return folder / CERTIFICATE


def test_an_authority_that_nobody_asks_for(mysql: MySqlServer, tmp_path: Path) -> None:
    for tls in set(MODES) - set(VERIFYING):
        with pytest.raises(ConfigError, match="checks no certificate"):
            options(mysql, tls, tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        options(mysql, "verify-ca", tmp_path / "nothing.pem")
    (tmp_path / "text.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match="holds no certificate"):
        options(mysql, "verify-ca", tmp_path / "text.pem")


def test_every_authentication_plugin(any_server: MySqlServer) -> None:
    with connect(ConnectionOptions.from_url(any_server.url)) as root:
        active = "SELECT PLUGIN_NAME FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_TYPE = 'AUTHENTICATION'"
        plugins = [name for (name,) in root.query(active) if name in _PLUGINS]
        if not offers_tls(any_server):
            plugins.remove("sha256_password")  # that build has no RSA keys either, and so takes nobody's password
        assert plugins
        for plugin in plugins:
            where = "VIA" if root.is_mariadb else "WITH"
            by = f"USING PASSWORD('{_SECRET}')" if root.is_mariadb else f"BY '{_SECRET}'"
            root.query(f"CREATE USER plugged@'127.0.0.1' IDENTIFIED {where} {plugin} {by}")
            for tls in ("preferred", "disabled"):
                found = replace(options(any_server, tls), user="plugged", password=_SECRET)
                with connect(found) as session:
                    assert session.scalar("SELECT CURRENT_USER()") == "plugged@127.0.0.1"
            root.query("DROP USER plugged@'127.0.0.1'")
