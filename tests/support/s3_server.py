"""A server of S3 on 127.0.0.1 (moto, in this process): it notes requests, and can refuse one, or lose its answer."""

from __future__ import annotations

import re
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

_REFUSED = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>'


@dataclass(frozen=True)
class Request:
    """One of an object or a bucket: `condition` is what it must meet, "" for nothing; `status` what was answered."""

    method: str
    path: str
    condition: str
    status: str


class _Silent(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Nothing: `S3Server.requests` has all."""


class S3Server:
    """As a context manager. `lost` and `refused` say of which requests the answer is lost, or that are refused."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.lost: Callable[[Request], bool] = lambda _: False
        self.refused: Callable[[Request], bool] = lambda _: False
        self._application = DomainDispatcherApplication(create_backend_app)
        self._turn = threading.Lock()  # moto looks for an object and puts it in two steps, and S3 in one
        self._server: BaseWSGIServer = make_server(
            "127.0.0.1", port, self._answer, threaded=True, request_handler=_Silent
        )
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def bucket(self, name: str = "") -> str:
        """The name of a bucket that is made now; a new one, so that no client remembers it."""
        name = name or f"lake-{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT")):
            return name

    def objects(self, bucket: str) -> list[str]:
        """The names of a bucket's objects, but for those that stand for folders; up to a thousand."""
        return [name for name in self._names(bucket) if not name.endswith("/")]

    def folders(self, bucket: str) -> list[str]:
        """The names of objects that stand for folders, of the first thousand objects."""
        return [name for name in self._names(bucket) if name.endswith("/")]

    def _names(self, bucket: str) -> list[str]:
        with urllib.request.urlopen(f"{self.url}/{bucket}?list-type=2") as answer:
            return re.findall(r"<Key>([^<]*)</Key>", answer.read().decode())

    def commits(self, bucket: str) -> list[Request]:
        """The puts of versions of tables' logs."""
        return [
            one
            for one in self.requests
            if one.method == "PUT" and one.path.startswith(f"/{bucket}/") and _is_version(one.path)
        ]

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        condition = environ.get("HTTP_IF_NONE_MATCH") or environ.get("HTTP_IF_MATCH") or ""
        asked = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], condition, "")
        answered: list[Any] = []

        def note(status: str, headers: list[Any], *_: Any) -> None:
            answered[:] = [status, headers]

        if self.refused(asked):
            body: list[bytes] = [_REFUSED]
            note("403 Forbidden", [("Content-Type", "application/xml")])
        else:
            with self._turn:
                body = [*self._application(environ, note)]
        self.requests.append(Request(asked.method, asked.path, condition, answered[0]))
        if self.lost(asked):
            answered, body = ["500 Internal Server Error", []], []
        start(*answered)
        return body

    def __enter__(self) -> S3Server:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _is_version(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith("/_delta_log") and len(name) == 25 and name.endswith(".json")
