"""Client certificates on servers that require one; keys that cannot be used; and that the key is on no disk."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lakehouse_cdc.errors import CdcError, ConfigError, DefiniteError, codes
from lakehouse_cdc.mysql.connection.client_certificate import ClientCertificate
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.mysql.connection.tls import context
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.certificate import CERTIFICATE, KEY, write_certificate
from tests.support.servers import connected, start_or_skip

OWN = ("mysql-8.0", "mysql-9")  # MySQL writes a client's certificate with its data directory


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    write_certificate(folder)
    return folder


def of_folder(folder: Path, certificate: str = CERTIFICATE, key: str = KEY) -> ClientCertificate:
    return ClientCertificate((folder / certificate).read_text(), (folder / key).read_text())


@pytest.fixture
def mutual(request: pytest.FixtureRequest, own: Path) -> Iterator[tuple[MySqlServer, ClientCertificate]]:
    """A server with the account `shown`, which requires a certificate, and one that it trusts."""
    if request.param in OWN:
        server: MySqlServer = request.getfixturevalue("mysql")
        if request.param != "mysql-8.0":
            server = request.getfixturevalue("other_servers").setdefault(request.param, start_or_skip(request.param))
        certificate = of_folder(server.directory / "data", "client-cert.pem", "client-key.pem")
        yield from with_account(server, certificate)
    else:
        with start_or_skip("mariadb-11", options={"ssl_ca": str(own / CERTIFICATE)}) as server:
            yield from with_account(server, of_folder(own))


def with_account(
    server: MySqlServer, certificate: ClientCertificate
) -> Iterator[tuple[MySqlServer, ClientCertificate]]:
    with closing(connected(server)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER shown@'127.0.0.1' IDENTIFIED BY 'pw' REQUIRE X509")
        yield server, certificate
        cursor.execute("DROP USER shown@'127.0.0.1'")


def refused_for_good(options: ConnectionOptions) -> DefiniteError:
    """The error of the first try that says why: where the server closes before its reason is read, it is transient."""
    for _ in range(20):
        with pytest.raises(CdcError) as refused:
            connect(options)
        if isinstance(refused.value, DefiniteError):
            return refused.value
        assert refused.value.code is codes.CONNECTION_LOST, refused.value
    raise AssertionError(refused.value)


@pytest.mark.mysql
@pytest.mark.parametrize("mutual", ["mysql-8.0", "mysql-9", "mariadb-11"], indirect=True)
def test_an_account_that_requires_one(mutual: tuple[MySqlServer, ClientCertificate], own: Path) -> None:
    server, certificate = mutual
    options = ConnectionOptions.from_url(f"mysql://shown@127.0.0.1:{server.port}", password="pw", tls="required")
    with pytest.raises(DefiniteError) as refused:
        connect(options)
    assert refused.value.code is codes.ACCESS_DENIED
    assert "needs source.tls_cert and source.tls_key" in refused.value.hint
    for tls in ("required", "preferred"):
        with connect(replace(options, certificate=certificate, tls=tls)) as session:
            assert session.scalar("SELECT CURRENT_USER()") == "shown@127.0.0.1"
    if server.version.startswith("mysql"):  # whose authority is not that of this certificate
        other = refused_for_good(replace(options, certificate=of_folder(own)))
        assert other.code is codes.TLS_FAILED, other
        assert "refuses the client's certificate" in other.what


def test_a_key_with_a_password(own: Path) -> None:
    key = serialization.load_pem_private_key((own / KEY).read_bytes(), None)
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(
        serialization.Encoding.PEM, form, serialization.BestAvailableEncryption("gehßeim".encode())
    ).decode()
    shown = (own / CERTIFICATE).read_text()
    context("required", "", ClientCertificate(shown, pem, "gehßeim"))
    for wrong in ("", "geheim"):
        with pytest.raises(ConfigError, match="tls_key_password") as refused:
            context("required", "", ClientCertificate(shown, pem, wrong))
        assert refused.value.code is codes.TLS_CERTIFICATE_UNREADABLE


def test_what_cannot_be_used_is_not_quoted(own: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown, key = (own / CERTIFICATE).read_text(), (own / KEY).read_text()
    cut = key.replace(key.splitlines()[1], key.splitlines()[1][:-20])
    for certificate, private in ((shown, other.decode()), (shown, cut), (shown, shown), (key, key), ("", key)):
        with pytest.raises(ConfigError) as refused:
            ClientCertificate(certificate, private).load_into(context("required", ""))
        assert refused.value.code is codes.TLS_CERTIFICATE_UNREADABLE
        text = "".join(traceback.format_exception(refused.value))
        assert not any(line in text for line in (*key.splitlines()[1:-1], *other.decode().splitlines()[1:-1]))
    assert key.splitlines()[1] not in repr(ClientCertificate(shown, key))


def test_no_file_is_left(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    of_folder(own).load_into(context("required", ""))
    assert [*tmp_path.rglob("*")] == []
