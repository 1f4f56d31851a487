"""Make the jar that is shipped:

    uv run python -m lakehouse_cdc.runtime.java_store.build

It needs a compiler of Java 17 or later, which users do not. The classes are compiled for Java 17, against the jars that
Spark and Delta have; the jar holds them and the digest of their sources, with the times of all set to one, so that
the same compiler gives the same bytes (`test_it_is_what_its_sources_give`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import subprocess
import tempfile
import zipfile
from pathlib import Path

from lakehouse_cdc.runtime.jars import fetch
from lakehouse_cdc.runtime.java_store import JAR
from lakehouse_cdc.runtime.session import DELTA

DIGEST = "META-INF/sources.sha256"
_MANIFEST = ("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\n\r\n")
_TIME = (1980, 1, 1, 0, 0, 0)
_OF_SPARK = ("hadoop-client-api", "scala-library", "spark-common-utils_2.13", "spark-sql_2.13", "spark-sql-api_2.13")


def sources() -> list[Path]:
    """The files of Java, in order."""
    return sorted(Path(__file__).parent.glob("*.java"))


def digest() -> str:
    """The SHA-256 of all sources and their names, in hex."""
    whole = hashlib.sha256()
    for source in sources():
        whole.update(f"{source.name}\0".encode() + source.read_bytes() + b"\0")
    return whole.hexdigest()


def built(compiler: str = "javac") -> bytes:
    """The content of the jar. Raises CalledProcessError with the compiler's words in `stderr`."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    needed = [next(jars.glob(f"{name}-*.jar")) for name in _OF_SPARK]
    delta = [path for jar, path in zip(DELTA, fetch(DELTA), strict=True) if jar.artifact == "delta-storage"]
    with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-javac-") as folder:
        path = ":".join(map(str, [*needed, *delta]))
        options = ["--release", "17", "-Xlint:all,-classfile", "-Werror", "-g:source,lines", "-proc:none"]
        command = [compiler, *options, "-cp", path, "-d", folder, *map(str, sources())]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made = {str(one.relative_to(folder)): one.read_bytes() for one in sorted(Path(folder).rglob("*.class"))}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as jar:
        for name, data in (_MANIFEST, (DIGEST, digest().encode()), *made.items()):
            jar.writestr(zipfile.ZipInfo(name, _TIME), data)
    return content.getvalue()


def main() -> None:
    """Write the jar beside this module."""
    content = built()
    JAR.write_bytes(content)
    print(f"{len(content):,} bytes")


if __name__ == "__main__":
    main()
