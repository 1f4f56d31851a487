"""The Python that a local session has Spark start, and the host that serves it (see `launch_program` and
`fork_server`)."""

from __future__ import annotations

import atexit
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lakehouse_cdc.runtime.session import PythonPrograms, is_on_this_machine, kernel_cache, scratch_folder
from lakehouse_cdc.workers import launch_program

_HOST, _DAEMON = "lakehouse_cdc.workers.fork_server", "lakehouse_cdc.workers.daemon"
PLANNER = "pyspark.sql.streaming.python_streaming_source_runner"  # the module that Spark starts for each stream
_SCRIPT = """#!/bin/sh
if [ "$2" = {planner} ]; then exec {python} -I -S {launch} {socket} {python} "$@"; fi
exec {python} "$@"
"""


def programs() -> PythonPrograms:
    """The programs of a local session: a host of copies for what plans a source, and workers with imports done."""
    return PythonPrograms(python(), _DAEMON)


def programs_for(conf: Mapping[str, str]) -> PythonPrograms:
    """The programs of a session with those settings: on other machines there is no file of this process."""
    if archives := conf.get("spark.archives"):
        return PythonPrograms(f"./{archives.partition(',')[0].rpartition('#')[2]}/bin/python", _DAEMON)
    return programs() if is_on_this_machine(conf) else PythonPrograms(sys.executable, _DAEMON)


@cache
def python() -> str:
    """A program that is this interpreter, but for what the host can be faster; where that cannot be, this one itself.

    The host is started with it, and ends with this process.
    """
    folder = Path(scratch_folder())
    script, at = folder / "python", folder / "host"
    words = {
        "planner": PLANNER,
        "python": sys.executable,
        "launch": str(Path(launch_program.__file__)),
        "socket": str(at),
    }
    script.write_text(_SCRIPT.format(**{name: shlex.quote(word) for name, word in words.items()}))
    script.chmod(0o700)
    if not os.access(script, os.X_OK):  # the folder lies where nothing may be executed
        return sys.executable
    # its standard input is ours to close, which it waits for; it must not see the Ctrl-C that is for us
    host = subprocess.Popen(
        [sys.executable, "-m", _HOST, str(at)], env={**os.environ, "NUMBA_CACHE_DIR": kernel_cache()},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    atexit.register(_end, host)
    return str(script)


def _end(host: subprocess.Popen[bytes]) -> None:
    assert host.stdin is not None
    host.stdin.close()
    try:
        host.wait(1)
    except subprocess.TimeoutExpired:  # it still imports or compiles, and does not look: nobody needs that any more
        host.terminate()
        host.wait()
