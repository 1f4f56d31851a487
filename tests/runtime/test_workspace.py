"""Secrets of a workspace: the value where it is, one line of ours where it is not, and the value in no line of a log.

The SDK is the real one, its workspace a loopback server that speaks the REST API's JSON.
"""

from __future__ import annotations

import base64
import logging
import pickle
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from lakehouse_cdc.errors import CdcError, ConfigError, TransientError, codes
from lakehouse_cdc.options.kinds import Invalid, SecretReference, Url
from lakehouse_cdc.options.secrets import Secret, server_url
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.pipeline.config.source_options import check_alone, connection_options, source_options
from lakehouse_cdc.runtime import workspace
from lakehouse_cdc.runtime.workspace import secret
from tests.remedies import remedy
from tests.support.rest import Answer, Rest, rest

VALUE = "hünter2 s3cret"
PATH = "/api/2.0/secrets/get"
HELD = {
    ("shop", "mysql_password"): base64.b64encode(VALUE.encode()).decode(),
    ("shop", "bytes"): base64.b64encode(b"\xff\xfes3cret").decode(),
    ("shop", "broken"): "s3cret!",
}
# what a workspace answers, as its documentation says
REFUSALS: dict[str, Answer] = {
    "nowhere": (404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "Secret does not exist with scope: nowhere"}),
    "closed": (403, {"error_code": "PERMISSION_DENIED", "message": "User does not have READ permission"}),
    "outside": (400, {"error_code": "BAD_REQUEST", "message": "Secrets are read from a notebook"}),
    "stranger": (401, {"error_code": "UNAUTHENTICATED", "message": "Credential was not sent"}),
    "failing": (500, {"error_code": "INTERNAL_ERROR", "message": f"it was {VALUE}"}),
    "busy": (429, {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": "too many"}),
}


def answer(asked: dict[str, str]) -> Answer:
    scope, key = asked["scope"], asked["key"]
    if scope in REFUSALS:
        return REFUSALS[scope]
    if (scope, key) in HELD:
        return 200, {"key": key, "value": HELD[scope, key]}
    return REFUSALS["nowhere"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Rest]:
    """A workspace that this process is logged in to."""
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    monkeypatch.setattr(workspace.client, "__defaults__", (1,))
    with rest({PATH: answer}) as found:
        monkeypatch.setenv("DATABRICKS_HOST", found.url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "a-token")
        monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "none"))
        yield found


def test_a_reference_is_resolved_by_the_workspace(server: Rest) -> None:
    assert Secret("${secret:shop/mysql_password}").reveal() == VALUE
    assert server.asked == [(PATH, {"scope": "shop", "key": "mysql_password"}, "Bearer a-token")]


@pytest.mark.parametrize(
    ("scope", "key", "kind", "what"),
    [
        ("nowhere", "k", ConfigError, "cannot read the secret nowhere/k: RESOURCE_DOES_NOT_EXIST"),
        ("shop", "other", ConfigError, "cannot read the secret shop/other: RESOURCE_DOES_NOT_EXIST"),
        ("closed", "k", ConfigError, "cannot read the secret closed/k: PERMISSION_DENIED"),
        ("outside", "k", ConfigError, "cannot read the secret outside/k: BAD_REQUEST"),
        ("stranger", "k", ConfigError, "cannot read the secret stranger/k: the workspace does not know this login"),
        ("failing", "k", TransientError, "cannot read the secret failing/k: INTERNAL_ERROR"),
        ("busy", "k", TransientError, "cannot read the secret busy/k: the workspace cannot be reached"),
        ("shop", "bytes", ConfigError, "the secret shop/bytes is not text in UTF-8"),
        ("shop", "broken", ConfigError, "the secret shop/broken is not text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_one_line(server: Rest, scope: str, key: str, kind: type[CdcError], what: str) -> None:
    with pytest.raises(kind) as caught:
        secret(scope, key)
    assert type(caught.value) is kind
    assert caught.value.what.startswith(what)
    assert caught.value.hint
    assert "s3cret" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_no_log_holds_the_value(server: Rest, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="databricks.sdk")
    secret("shop", "mysql_password")
    with pytest.raises(ConfigError) as caught:
        secret("shop", "bytes")
    logged = caplog.text + "".join(traceback.format_exception(caught.value))
    assert HELD["shop", "mysql_password"] not in logged
    assert "s3cret" not in logged
    assert logging.getLogger("databricks.sdk").level == logging.DEBUG


def test_a_workspace_that_is_not_there(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:1")
    with pytest.raises(TransientError, match="cannot be reached"):
        secret("shop", "mysql_password")


def test_nobody_is_logged_in(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_AUTH_TYPE", "pat")
    monkeypatch.delenv("DATABRICKS_TOKEN")
    with pytest.raises(ConfigError, match="no login to a Databricks workspace") as caught:
        secret("shop", "mysql_password")
    assert "DATABRICKS_TOKEN" in caught.value.hint


def read(scope: str = "shop", key: str = "mysql_password") -> CdcError:
    """Why a secret cannot be read."""
    with pytest.raises(CdcError) as caught:
        secret(scope, key)
    return caught.value


@remedy(codes.WORKSPACE_LOGIN_MISSING)
def test_a_login_is_configured_as_the_hint_says(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_AUTH_TYPE", "pat")
    for name in ("DATABRICKS_TOKEN", "DATABRICKS_HOST"):
        monkeypatch.delenv(name)
    error = read()
    assert error.code is codes.WORKSPACE_LOGIN_MISSING
    variables = re.fullmatch(r"databricks auth login, or set (\w+) and (\w+)", error.hint)
    assert variables, error.hint
    monkeypatch.setenv(variables[1], server.url)
    monkeypatch.setenv(variables[2], "a-token")
    assert secret("shop", "mysql_password") == VALUE


@remedy(codes.WORKSPACE_REFUSED, codes.SECRET_UNREADABLE)
def test_a_secret_is_put_as_the_hint_says(server: Rest) -> None:
    """The workspace holds what the user puts there by the CLI of Databricks, and what its administrator grants."""
    held: dict[tuple[str, str], str] = {}
    readers: set[str] = set()

    def answer(asked: dict[str, str]) -> Answer:
        if asked["scope"] not in readers:
            return REFUSALS["closed"]
        place = asked["scope"], asked["key"]
        return (200, {"key": place[1], "value": held[place]}) if place in held else REFUSALS["nowhere"]

    server.routes = {PATH: answer}
    error = read()
    assert error.code is codes.WORKSPACE_REFUSED
    put = re.fullmatch(r"databricks secrets put-secret (\w+) (\w+); its reader needs READ on the scope", error.hint)
    assert put, error.hint
    readers.add(put[1])
    assert (again := read()).code is codes.WORKSPACE_REFUSED
    assert again.hint == error.hint
    held[put[1], put[2]] = HELD["shop", "bytes"]
    unread = read()
    assert (unread.code, unread.hint) == (codes.SECRET_UNREADABLE, "put it as a string value")
    held[put[1], put[2]] = HELD["shop", "mysql_password"]
    assert secret("shop", "mysql_password") == VALUE


@pytest.mark.long
@remedy(codes.WORKSPACE_FAILED)
def test_a_workspace_that_fails_is_asked_again(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:1")
    error = read()
    assert error.code is codes.WORKSPACE_FAILED
    variable = re.fullmatch(r"check (\w+)", error.hint)
    assert variable, error.hint
    monkeypatch.setenv(variable[1], server.url)
    assert secret("shop", "mysql_password") == VALUE
    server.routes = {PATH: lambda _: REFUSALS["failing"]}
    error = read()
    assert (error.code, error.hint) == (codes.WORKSPACE_FAILED, "try again later")
    server.routes = {PATH: answer}
    assert secret("shop", "mysql_password") == VALUE


@remedy(codes.PACKAGE_MISSING)
def test_the_extra_of_the_hint_has_the_sdk(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """To install it is another test's (tests/bundles/test_wheel.py)."""
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "databricks.sdk", None)
        error = read()
    assert error.code is codes.PACKAGE_MISSING
    command = shlex.split(error.hint)
    assert command[:2] == ["pip", "install"]
    named = [Requirement(text) for text in command[2:]]
    requirements = [Requirement(text) for text in requires("lakehouse-cdc") or ()]
    brought = {one.name for one in requirements if one.marker and one.marker.evaluate({"extra": "databricks"})}
    assert {one.name for one in named} == brought >= {"databricks-sdk"}
    assert secret("shop", "mysql_password") == VALUE


def test_without_the_sdk(server: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "databricks.sdk", None)
    with pytest.raises(ConfigError, match="SDK is not installed") as caught:
        secret("shop", "mysql_password")
    assert "pip install 'databricks-sdk>=" in caught.value.hint


CONNECTIONS = "/api/2.1/unity-catalog/connections"
MYSQL = {"host": "db.example", "port": "3307", "user": "cdc@shop", "trustServerCertificate": "false"}


def holding(server: Rest, connections: dict[str, tuple[str, dict[str, str]]]) -> None:
    """Have the workspace answer as documented: all of a connection but its password; by (type, options)."""

    def route(name: str) -> Callable[[dict[str, str]], Answer]:
        kind, options = connections[name]
        shown = {key: value for key, value in options.items() if key != "password"}
        held = {"name": name, "full_name": name, "connection_type": kind, "credential_type": "USERNAME_PASSWORD"}
        return lambda _: (200, {**held, "options": shown, "read_only": True, "securable_type": "CONNECTION"})

    server.routes = {f"{CONNECTIONS}/{name}": route(name) for name in connections} | {
        f"{CONNECTIONS}/none": lambda _: (
            404, {"error_code": "CONNECTION_DOES_NOT_EXIST", "message": "Connection 'none' does not exist."},
        ),
        f"{CONNECTIONS}/closed": lambda _: (
            403, {"error_code": "PERMISSION_DENIED", "message": "User does not have USE CONNECTION"},
        ),
        PATH: answer,
    }  # fmt: skip


def test_a_url_is_that_of_a_connection_of_unity_catalog_and_the_password_a_secret(server: Rest, tmp_path: Path) -> None:
    holding(server, {"shop": ("MYSQL", MYSQL), "six": ("MYSQL", {"host": "fd00::7", "user": "cdc"})})
    assert server_url("${connection:shop}") == "mysql://cdc%40shop@db.example:3307"
    assert server_url("${connection:six}") == "mysql://cdc@[fd00::7]:3306"
    assert server_url("mysql://cdc@db:3306") == "mysql://cdc@db:3306"
    assert server.asked == [(f"{CONNECTIONS}/{name}", {}, "Bearer a-token") for name in ("shop", "six")]
    config = PipelineConfig.parse(
        {
            "name": "shop",
            "source": {
                "url": "${connection:shop}", "password": "${secret:shop/mysql_password}", "tables": ["shop.*"],
            },
            "target": {"path": "lake", "bronze": "bronze"},
        }
    )  # fmt: skip
    check_alone(config)  # asks nobody
    made = connection_options(config, tmp_path)
    assert (made.host, made.port, made.user, made.password) == ("db.example", 3307, "cdc@shop", VALUE)
    assert source_options(config, tmp_path, "schemas")["url"] == "mysql://cdc%40shop@db.example:3307"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("none", "cannot read the connection none: CONNECTION_DOES_NOT_EXIST"),
        ("closed", "cannot read the connection closed: PERMISSION_DENIED"),
        ("other", "the connection other is POSTGRESQL, and not MYSQL"),
        ("hidden", "the connection hidden has no user that may be read"),
    ],
)
def test_a_connection_that_is_of_no_use(server: Rest, name: str, what: str) -> None:
    holding(server, {"other": ("POSTGRESQL", MYSQL), "hidden": ("MYSQL", {"host": "db"})})
    with pytest.raises(ConfigError) as caught:
        server_url(f"${{connection:{name}}}")
    assert caught.value.what.startswith(what)
    assert caught.value.hint


@remedy(codes.CATALOG_CONNECTION_UNUSABLE)
def test_a_connection_is_made_as_the_hint_says(server: Rest) -> None:
    holding(server, {"other": ("POSTGRESQL", MYSQL)})
    with pytest.raises(ConfigError) as caught:
        server_url("${connection:other}")
    assert caught.value.code is codes.CATALOG_CONNECTION_UNUSABLE
    hint = re.match(
        r"CREATE CONNECTION (\w+) TYPE (\w+) OPTIONS \((.*)\), and name that one; or write", caught.value.hint
    )
    assert hint, caught.value.hint
    options = {key: value for key, value, _ in re.findall(r"(\w+) ('[^']*'|secret\(('[^']*', '[^']*')\))", hint[3])}
    assert options.keys() == {"host", "port", "user", "password"}
    holding(server, {hint[1]: (hint[2].upper(), {key: value.strip("'") for key, value in options.items()})})
    assert server_url(f"${{connection:{hint[1]}}}") == "mysql://cdc@db.example:3306"


@pytest.mark.parametrize("wrong", ["${connection:}", "${connection:a/b}", "x${connection:a}", "${secret:a/b}"])
def test_a_reference_to_a_connection_is_the_whole_url(wrong: str) -> None:
    with pytest.raises(Invalid, match="expected mysql://user@host:port"):
        Url().check(wrong)


class DbUtils:
    """`dbutils.secrets`, whose exceptions are py4j's with the Java side's text."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.secrets = self

    def get(self, scope: str, key: str) -> str:
        if self.failure:
            raise RuntimeError(self.failure)
        return f"{scope}:{key}"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ("", None),
        ("java.lang.IllegalArgumentException: Secret does not exist with scope: shop and key: k", ConfigError),
        ("com.databricks.common.client.DatabricksServiceHttpClientException: PERMISSION_DENIED: READ", ConfigError),
        (f"java.net.SocketTimeoutException: {VALUE}", TransientError),
    ],
)
def test_on_databricks_dbutils_is_asked_alone(
    server: Rest, monkeypatch: pytest.MonkeyPatch, failure: str, kind: type[CdcError] | None
) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19")
    runtime = ModuleType("databricks.sdk.runtime")
    runtime.dbutils = DbUtils(failure)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", runtime)
    if kind is None:
        assert secret("shop", "k") == "shop:k"
    else:
        with pytest.raises(kind, match="the secret shop/k") as caught:
            secret("shop", "k")
        assert "s3cret" not in str(caught.value)
    assert server.asked == []


@pytest.mark.parametrize("wrong", ["${secret:shop}", "${secret:/k}", "${secret:shop/}", "${secret:a/b/c}", "s3cret"])
def test_a_reference_names_a_scope_and_a_key(wrong: str) -> None:
    with pytest.raises(Invalid, match="given by reference"):
        SecretReference().check(wrong)
