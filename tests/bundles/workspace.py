"""As much of a workspace as `databricks bundle validate` asks for: who the user is, and folders that can be made."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse


class _Workspace(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folders: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    server: _Workspace

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if url.path == "/api/2.0/preview/scim/v2/Me":
            self._answer(200, {"id": "1", "userName": "someone@example.com"})
        elif url.path == "/api/2.0/workspace/get-status" and (path := parse_qs(url.query)["path"][0]) in (
            self.server.folders
        ):
            self._answer(200, {"object_type": "DIRECTORY", "path": path, "object_id": 1})
        else:
            self._answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "not there"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/2.0/workspace/mkdirs":
            self.server.folders.add(json.loads(body)["path"])
        self._answer(200, {})

    def _answer(self, status: int, value: dict[str, object]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the CLI tells what failed."""


@contextmanager
def workspace() -> Iterator[str]:
    """The address of one, on this machine alone."""
    with _Workspace() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
