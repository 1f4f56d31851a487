"""Jars: only the pinned content, from whichever resolver is there, and from the cache afterwards.

Spark's resolver is the real one; what it talks to is a package repository of our own on 127.0.0.1, over TLS.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import re
import shutil
import ssl
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, TransientError, codes
from lakehouse_cdc.runtime import jars
from lakehouse_cdc.runtime.cache import ENVIRONMENT
from lakehouse_cdc.runtime.jars import Jar, fetch
from tests.remedies import remedy

pytestmark = pytest.mark.process

CONTENT = b"PK, so to say"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def jar(tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Jar]:
    """A jar that only a repository of ours serves, under a version that no cache has seen."""
    version = uuid.uuid4().hex
    folder = tmp_path / "repository" / "a" / "group" / "thing" / version
    folder.mkdir(parents=True)
    (folder / f"thing-{version}.jar").write_bytes(CONTENT)
    (folder / f"thing-{version}.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>a.group</groupId><artifactId>thing</artifactId><version>{version}</version></project>"
    )
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "repository"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"https://127.0.0.1:{server.server_port}/")
        yield Jar("a.group", "thing", version, hashlib.sha256(CONTENT).hexdigest())
        server.shutdown()


@pytest.fixture
def no_maven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)


@pytest.mark.usefixtures("no_maven")
def test_sparks_resolver_delivers_and_the_cache_keeps(
    cache: Path, jar: Jar, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    [path] = fetch([jar])
    assert path == cache / "jars" / jar.file_name
    assert path.read_bytes() == CONTENT
    monkeypatch.setattr(jars, "_fetch_missing", lambda _: pytest.fail("it is cached"))
    assert fetch([jar]) == [path]


@pytest.mark.long
@pytest.mark.usefixtures("no_maven")
def test_content_that_differs_is_refused_and_not_kept(
    cache: Path, jar: Jar, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with pytest.raises(DefiniteError, match=f"SHA-256 {jar.sha256}, expected 00000000"):
        fetch([Jar(jar.group, jar.artifact, jar.version, "0" * 64)])
    assert list(cache.rglob("*.jar")) == []


@pytest.mark.long
@remedy(codes.JAR_ALTERED)
@pytest.mark.usefixtures("no_maven")
def test_an_altered_file_is_replaced_where_it_comes_from(
    cache: Path, jar: Jar, tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    [served] = (tmp_path / "repository").rglob("*.jar")
    served.write_bytes(b"altered")
    with pytest.raises(DefiniteError) as refused:
        fetch([jar])
    assert refused.value.code is codes.JAR_ALTERED
    assert refused.value.hint.endswith("remove it there and try again")
    served.write_bytes(CONTENT)
    [path] = fetch([jar])
    assert path.read_bytes() == CONTENT


@pytest.mark.long
@remedy(codes.DOWNLOAD_FAILED)
@pytest.mark.usefixtures("no_maven")
def test_a_mirror_is_named_as_the_hint_says(
    jar: Jar, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    mirror = os.environ["DEFAULT_ARTIFACT_REPOSITORY"]
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://127.0.0.1:9/")  # nothing listens there
    with pytest.raises(TransientError) as failed:
        fetch([jar])
    assert failed.value.code is codes.DOWNLOAD_FAILED
    variable = re.search(r"Spark reads (\w+), Maven its settings\.xml", failed.value.hint)
    assert variable, failed.value.hint
    monkeypatch.setenv(variable[1], mirror)
    [path] = fetch([jar])
    assert path.read_bytes() == CONTENT


@pytest.mark.long
@pytest.mark.usefixtures("no_maven")
def test_an_authority_that_is_not_trusted_is_told_as_such(
    jar: Jar, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger))
    with pytest.raises(TransientError, match=r"Spark: .*PKIX path building failed.*; Maven: mvn is not installed"):
        fetch([jar])


def test_maven_stands_in_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(wanted: Sequence[Jar], scratch: Path) -> list[Path]:
        raise jars._Unavailable("no network")

    # Maven copies what it is asked for into the directory that it is told; so does this program
    program = tmp_path / "mvn"
    program.write_text(
        '#!/bin/sh\nfor a in "$@"; do case "$a" in -DoutputDirectory=*) '
        f"printf '{CONTENT.decode()}' > \"${{a#*=}}/thing-1.jar\";; esac; done\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(jars, "_by_spark", unavailable)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))
    [path] = fetch([Jar("group", "thing", "1", hashlib.sha256(CONTENT).hexdigest())])
    assert path.read_bytes() == CONTENT
