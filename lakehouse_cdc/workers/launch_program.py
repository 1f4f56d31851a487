"""The Python that Spark is given to start, for the one process of which a copy may be had: that which plans a source.

Spark starts it again for each stream, as `python -m MODULE`, and it imports for a second before it plans anything. Here
the host, which has imported all of that before (see `fork_server`), is asked for a copy of itself instead: it is handed
our environment and our three files, and becomes that process. We stay for as long as it runs, for Spark ends us where
it wants it ended, and end as it does. Without a host that answers we are the process ourselves.

Run as a file, `launch.py SOCKET PYTHON ARGUMENT...`, by an interpreter that need not find this package.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(path: str, python: str, *arguments: str) -> int:
    """The exit code of the process that was asked for; does not return where we are to be it ourselves."""
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX) as host:
        try:
            host.connect(path)
            socket.send_fds(host, [len(request).to_bytes(4, "big")], [0, 1, 2])
            host.sendall(request)
        except OSError:
            os.execv(python, [python, *arguments])
        code = host.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
