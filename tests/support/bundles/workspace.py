"""As much of a workspace as `databricks bundle validate` asks for: the user, folders, their rights, warehouses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

from tests.support.rest import Answering, serving

_USER = "someone@example.com"
_ACL = [  # of a user's home, and of what is made in it
    {"user_name": _USER, "all_permissions": [{"permission_level": "CAN_MANAGE", "inherited": False}]},
    {"group_name": "admins", "all_permissions": [{"permission_level": "CAN_MANAGE", "inherited": True}]},
]


class _Workspace(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folders = {"/", "/Workspace", "/Workspace/Users", f"/Workspace/Users/{_USER}"}


class _Handler(Answering):
    server: _Workspace

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if url.path == "/api/2.0/preview/scim/v2/Me":
            self.answer(200, {"id": "1", "userName": _USER})
        elif url.path == "/api/2.0/workspace/get-status" and (path := parse_qs(url.query)["path"][0]) in (
            self.server.folders
        ):
            self.answer(200, {"object_type": "DIRECTORY", "path": path, "object_id": 1})
        elif url.path == "/api/2.0/sql/warehouses":
            self.answer(200, {"warehouses": [{"id": "1234", "name": "Serverless Starter Warehouse"}]})
        elif url.path.startswith("/api/2.0/permissions/directories/"):
            self.answer(200, {"object_type": "directory", "access_control_list": _ACL})
        else:
            self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "not there"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/api/2.0/workspace/mkdirs":
            self.server.folders.add(json.loads(body)["path"])
        self.answer(200, {})


@contextmanager
def workspace() -> Iterator[str]:
    """The address of one, on this machine alone."""
    with serving(_Workspace()) as address:
        yield address
