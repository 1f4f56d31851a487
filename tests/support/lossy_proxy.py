"""A server of HTTP in front of another one, which loses answers: what was asked for is done, and nobody hears of it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LossyProxy:
    """As a context manager. `lost` says of a method and a path whether the answer is a failure, though it was done."""

    def __init__(self, port: int) -> None:
        self.lost: Callable[[str, str], bool] = lambda *_: False
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                """Nothing."""

            def answer(self) -> None:
                """Pass the request on, and the answer back."""
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                server = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                server.request(self.command, self.path, body, dict(self.headers.items()))
                given = server.getresponse()
                content = given.read()
                server.close()
                if proxy.lost(self.command, self.path):
                    self.send_error(500)
                    return
                self.send_response(given.status)
                for name, value in given.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                        self.send_header(name, value)
                length = given.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> LossyProxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
