"""Jars by coordinates, from the user's own package configuration, checked against a pinned checksum.

No registry is named here. Spark's resolver knows where packages come from (its default, DEFAULT_ARTIFACT_REPOSITORY,
the local Maven and Ivy caches), and Maven knows it from the user's settings. Whatever serves a jar, only the content
with the pinned SHA-256 is ever used; after the first fetch it is read from the cache, without a network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime import resolver
from lakehouse_cdc.runtime.cache import cache_directory, locked, publish
from lakehouse_cdc.runtime.java import find_java, java_home
from lakehouse_cdc.runtime.preparing import preparing
from lakehouse_cdc.runtime.truststore import authorities, truststore

_MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_PATIENCE = 900  # seconds for one resolver to deliver; the largest artifact has 149 MB


@dataclass(frozen=True)
class Jar:
    """One artifact: Maven coordinates and the SHA-256 of its content in hex. Its dependencies are not implied."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, as Spark and Maven write it."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def listed(file: Path) -> tuple[Jar, ...]:
    """Those of a file: a line for each, coordinates and SHA-256; lines that begin with # say something else."""
    lines = (line.split() for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    parts = ((*coordinates.split(":"), sha256) for coordinates, sha256 in lines)
    return tuple(Jar(group, artifact, version, sha256) for group, artifact, version, sha256 in parts)


def fetch(jars: Sequence[Jar], what: str = "") -> list[Path]:
    """The paths of the jars in the cache, in order; what is absent is fetched first, and said to be `what`.

    Raises TransientError where no resolver delivers, DefiniteError where a checksum differs.
    """
    places = [cache_directory() / "jars" / jar.file_name for jar in jars]
    if all(place.exists() for place in places):
        return places
    with locked(cache_directory() / "fetch.lock"):
        missing = [(jar, place) for jar, place in zip(jars, places, strict=True) if not place.exists()]
        if missing:
            _fetch_missing(missing, what)
    return places


def _fetch_missing(missing: Sequence[tuple[Jar, Path]], what: str) -> None:
    wanted = [jar for jar, _ in missing]
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-jars-") as scratch:
        with preparing(what or ", ".join(jar.file_name for jar in wanted), Path(scratch)):
            sources = _by_any_means(wanted, Path(scratch))
        for (jar, place), source in zip(missing, sources, strict=True):
            _check(jar, source)
            publish(place, partial(shutil.copyfile, source))


def _check(jar: Jar, path: Path) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != jar.sha256:
        raise codes.JAR_ALTERED.error(
            f"{jar.coordinates} is not what it should be: SHA-256 {digest}, expected {jar.sha256}",
            where=str(path),
            hint="the package source or a local cache holds an altered or broken file; remove it there and try again",
        )


def _by_any_means(jars: Sequence[Jar], scratch: Path) -> list[Path]:
    try:
        return _by_spark(jars, scratch)
    except _Unavailable as error:
        spark = str(error)
    try:
        return _by_maven(jars, scratch)
    except _Unavailable as error:
        raise codes.DOWNLOAD_FAILED.error(
            f"cannot fetch {', '.join(jar.coordinates for jar in jars)}",
            where=f"Spark: {spark}; Maven: {error}",
            hint="the first start needs a network; Spark reads DEFAULT_ARTIFACT_REPOSITORY, Maven its settings.xml",
        ) from error


class _Unavailable(Exception):
    """This way of fetching is not there, or did not deliver."""


def _by_spark(jars: Sequence[Jar], scratch: Path) -> list[Path]:
    if importlib.util.find_spec("pyspark") is None:
        raise _Unavailable("pyspark is not installed")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    environment["JAVA_HOME"] = str(java_home())
    if (trusted := authorities(find_java())) is not None:
        store = scratch / "truststore.jks"
        store.write_bytes(truststore(trusted.read_text(errors="replace")))
        environment["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options -Djavax.net.ssl.trustStore={store} pyspark-shell"
    wanted = [jar.coordinates for jar in jars]
    output = _run([sys.executable, resolver.__file__, str(scratch / "ivy"), *wanted], scratch, environment)
    return [Path(line) for line in output.splitlines()]


def _by_maven(jars: Sequence[Jar], scratch: Path) -> list[Path]:
    maven = shutil.which("mvn")
    if maven is None:
        raise _Unavailable("mvn is not installed")
    for jar in jars:
        common = [maven, "-q", "-B", f"-Dartifact={jar.coordinates}"]
        _run([*common, "-Dtransitive=false", f"{_MAVEN_PLUGIN}:get"], scratch)
        _run([*common, f"-DoutputDirectory={scratch}", f"{_MAVEN_PLUGIN}:copy"], scratch)
    return [scratch / jar.file_name for jar in jars]


def _run(command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unavailable(str(error)) from error
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = next((line for line in lines if line.startswith(("[ERROR]", "reason:"))), lines[-1] if lines else "")
        raise _Unavailable(reason.removeprefix("reason: ") or f"exit code {done.returncode}")
    return done.stdout
