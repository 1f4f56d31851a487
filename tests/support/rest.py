"""A loopback HTTP server that answers as a test says: JSON by method and path."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlparse

Answer = tuple[int, Mapping[str, Any]]
Route = Callable[[dict[str, str]], Answer]


class Rest(ThreadingHTTPServer):
    """`routes` answer GET requests by path, from the query's parameters; `asked` are (path, parameters, token)."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.routes = routes
        self.asked: list[tuple[str, dict[str, str], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    """Answers with JSON, and says nothing of it."""

    def answer(self, status: int, value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests look at what was asked, and a client tells what failed."""


class _Handler(Answering):
    server: Rest

    def do_GET(self) -> None:
        url = urlparse(self.path)
        parameters = dict(parse_qsl(url.query))
        status, value = 404, {"error_code": "ENDPOINT_NOT_FOUND", "message": f"no API found for {url.path}"}
        if (route := self.server.routes.get(url.path)) is not None:
            self.server.asked.append((url.path, parameters, self.headers.get("Authorization", "")))
            status, value = route(parameters)  # type: ignore[assignment]
        self.answer(status, value)


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    """Its address, until the block ends, on this machine alone."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def rest(routes: Mapping[str, Route]) -> Iterator[Rest]:
    """One that runs until the block ends."""
    server = Rest(routes)
    with serving(server):
        yield server
