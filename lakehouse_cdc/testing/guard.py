"""A program: run a server for as long as the process that started this holds the other end of standard input.

    python guard.py TEMPORARY mysqld ARGUMENT ...

A byte on that pipe asks for the server's end: `s` shuts it down, `k` kills it. The system closes the pipe when the
starter ends, however it ends (SIGKILL too): then the server is shut down, and the directory TEMPORARY (unless that is
the empty text) is removed, so neither outlives it. The guard is the server's parent, so no pid is ever looked up and
nothing else can be hit. It exits when the server has. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

STOP, KILL = b"s", b"k"
PATIENCE = 30.0  # seconds that a server has to shut down before it is killed


def main(temporary: str, *command: str) -> None:
    """Run the command; ends this process."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    abandoned = threading.Event()

    def until_released() -> None:
        asked = os.read(0, 1)
        if not asked:
            abandoned.set()
        if asked == KILL:
            server.kill()
            return
        server.terminate()
        try:
            server.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            server.kill()

    threading.Thread(target=until_released, daemon=True).start()
    code = server.wait()
    if temporary and abandoned.is_set():
        shutil.rmtree(temporary, ignore_errors=True)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(*sys.argv[1:])
