"""A program: resolve Maven coordinates with Spark's own resolver; one path a line on standard output.

    python resolver.py DIRECTORY group:artifact:version ...

DIRECTORY takes the resolver's own cache, and so the artifacts; the local Maven cache is read as well. It runs in a
process of its own, since PySpark starts its JVM with the environment and the console of the process that asks.
`org.apache.spark.util.MavenUtils` is what `spark-submit --packages` runs; dependencies are left out (`transitive` is
false). Where it fails, a line on standard error begins with "reason:", and the exit code is 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any


def resolve(jvm: Any, directory: str, coordinates: str, heard: Any) -> str:
    """The path of one artifact in the resolver's directory; Py4JJavaError where it cannot be had.

    `heard` is a java.io.ByteArrayOutputStream that takes all that the resolver says.
    """
    quiet = jvm.java.io.PrintStream(heard, True)
    none = jvm.scala.Option.apply(None)
    maven = jvm.org.apache.spark.util.MavenUtils
    no_exclusions = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    settings = maven.buildIvySettings(none, jvm.scala.Option.apply(directory), True, quiet)
    paths = maven.resolveMavenCoordinates(coordinates, settings, none, False, no_exclusions, False, quiet)
    return str(paths.mkString(""))


def reason(heard: str, error: str) -> str:
    """Why a resolution failed: Ivy ends with "not found", whatever the cause, and lists causes among all else."""
    causes = re.findall(r"Server access error at url \S+ \((.*)\)|(Host \S+ not found)", heard)
    every = [first or second for first, second in causes] + error.splitlines()[:1]
    return "; ".join(dict.fromkeys(every))


def main(directory: str, *coordinates: str) -> int:
    """Print the paths, in order."""
    from py4j.protocol import Py4JJavaError
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway  # PySpark has no types for it
    gateway = launch(popen_kwargs={"stdout": subprocess.DEVNULL})
    heard = gateway.jvm.java.io.ByteArrayOutputStream()
    try:
        for one in coordinates:
            print(resolve(gateway.jvm, directory, one, heard), flush=True)
    except Py4JJavaError as error:
        print(f"reason: {reason(heard.toString(), str(error.java_exception))}", file=sys.stderr)
        return 1
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when its standard input does
        gateway.proc.wait(60)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
