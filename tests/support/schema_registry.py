"""A schema registry in the test's own process: the calls of Confluent's documented interface that a serializer makes.

It is none of the real ones, which judge what is compatible: this one takes a subject's second schema only where its
compatibility is NONE. A real one is in `tests/sinks/kafka/test_apicurio.py`.

Source: Confluent's "Schema Registry API Reference": POST /subjects/S and /subjects/S/versions, GET /schemas/ids/N,
GET /subjects/S/versions/latest, PUT /config/S; error codes 40401, 40403, 40101 and 409.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote, urlsplit


class Registry:
    """What it knows; `login` is the user and the password that it asks for, `failing` has it answer 503.

    `more` is what it says of a schema besides, by its number, such as that it is none of Avro.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, list[int]] = {}
        self.schemas: list[str] = []
        self.compatibility: dict[str, str] = {}
        self.login: tuple[str, str] | None = None
        self.failing = False
        self.more: dict[int, dict[str, Any]] = {}
        self.url = ""
        self._lock = Lock()

    def answer(self, method: str, path: str, body: Any, authorization: str) -> tuple[int, Any]:
        """The status and the JSON."""
        if self.failing:
            return 503, {"error_code": 50303, "message": "not now"}
        wanted = None if self.login is None else f"Basic {b64encode(':'.join(self.login).encode()).decode()}"
        if wanted not in (None, authorization):
            return 401, {"error_code": 40101, "message": "who are you"}
        with self._lock:
            match [method, *map(unquote, path.strip("/").split("/"))]:
                case ["POST", "subjects", subject, "versions"]:
                    return self._register(subject, body["schema"])
                case ["POST", "subjects", subject]:
                    known = body["schema"] in self.schemas and self.schemas.index(body["schema"]) + 1
                    if known in self.subjects.get(subject, []):
                        return 200, self._described(subject, int(known))
                    return 404, {"error_code": 40403, "message": "Schema not found"}
                case ["GET", "subjects", subject, "versions", "latest"] if subject in self.subjects:
                    return 200, self._described(subject, self.subjects[subject][-1])
                case ["GET", "schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                    return 200, {"schema": self.schemas[int(number) - 1], **self.more.get(int(number), {})}
                case ["PUT", "config", subject]:
                    self.compatibility[subject] = body["compatibility"]
                    return 200, body
        return 404, {"error_code": 40401, "message": "Subject not found"}

    def _register(self, subject: str, schema: str) -> tuple[int, Any]:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number, numbers = self.schemas.index(schema) + 1, self.subjects.setdefault(subject, [])
        if number not in numbers:
            if numbers and self.compatibility.get(subject) != "NONE":
                return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
            numbers.append(number)
        return 200, {"id": number}

    def _described(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, "schema": self.schemas[number - 1]}


@contextmanager
def running() -> Iterator[Registry]:
    """One on 127.0.0.1."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def _answered(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"null")
            path, sent = urlsplit(self.path).path, self.headers.get("Authorization", "")
            status, said = registry.answer(self.command, path, body, sent)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _answered

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
