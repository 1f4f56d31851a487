"""A process that has imported all that planning a source takes, and gives copies of itself (see `workers.launcher`).

    python -m lakehouse_cdc.workers.fork_server SOCKET

It listens before it imports, so that who asks early waits for what is left of that. It ends when its standard input
does: with the process that has started it. A copy ends when who asked for it is gone.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress

from lakehouse_cdc.workers.launcher import PLANNER
from lakehouse_cdc.workers.preload import import_once


def main(path: str) -> None:
    """Serve until the standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        import_once(PLANNER)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for copies: they report how they ended
        while listener in select.select([listener, sys.stdin], [], [])[0]:
            asker, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _become(asker)
            asker.close()
    os.unlink(path)


def _become(asker: socket.socket) -> None:
    """Run what is asked for in this process, say how it ended, and end."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, files, _, _ = socket.recv_fds(asker, 4, 3)
        for target, file in enumerate(files):
            os.dup2(file, target)
            os.close(file)
        request = json.loads(_exactly(asker, int.from_bytes(size, "big")))
        os.environ.clear()
        os.environ.update(request["environment"])
        for folder in reversed(request["environment"].get("PYTHONPATH", "").split(os.pathsep)):
            if folder and folder not in sys.path:
                sys.path.insert(1, folder)
        threading.Thread(target=_end_with, args=(asker,), daemon=True).start()
        option, module, *arguments = request["arguments"]
        assert option == "-m", option
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code & 0xFF if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
            asker.sendall(bytes([code]))
        os._exit(code)


def _exactly(asker: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (piece := asker.recv(size - len(received))):
            raise EOFError("who asked is gone")
        received += piece
    return received


def _end_with(asker: socket.socket) -> None:
    with suppress(OSError):
        asker.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
