"""A Databricks workspace, through the SDK that Databricks has for it.

The SDK is an extra (every cluster brings it), so it is imported when somebody asks for a workspace, and never before.
Its errors leave this module as ours, told apart by whether trying again can help: what the workspace refuses
(400 to 404) stays refused until somebody changes a right, a name or the login; time-outs, 429 and 5xx may pass. Only
the error's code is repeated, never its text or an answer: a secret that is asked for could be in either.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.databricks import on_databricks
from lakehouse_cdc.runtime.extras import installing

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

_PATIENCE = 60  # seconds for the SDK's own retries; its default is five minutes
_LOGIN = "databricks auth login, or set DATABRICKS_HOST and DATABRICKS_TOKEN"
_MISSING = "does not exist"  # the Java side's words, of a scope and of a key


def client(retry_seconds: int = _PATIENCE) -> WorkspaceClient:
    """A client for the workspace that this process is logged in to, as the SDK finds out (environment, profile).

    Raises ConfigError where the SDK is not installed, or no login is configured.
    """
    try:
        from databricks.sdk import WorkspaceClient
        from databricks.sdk.config import Config
    except ImportError as error:
        raise codes.PACKAGE_MISSING.error(
            "the Databricks SDK is not installed", hint=installing("databricks")
        ) from error
    try:
        return WorkspaceClient(config=Config(retry_timeout_seconds=retry_seconds))
    except ValueError:  # the SDK's one for a login that is missing or incomplete; its text repeats settings
        raise codes.WORKSPACE_LOGIN_MISSING.error(
            "no login to a Databricks workspace is configured", hint=_LOGIN
        ) from None


@contextmanager
def asking(what: str, hint: str = "") -> Iterator[None]:
    """Raise what the SDK raises inside as ConfigError or TransientError; `what` says what was asked for."""
    from databricks.sdk.errors.base import DatabricksError
    from databricks.sdk.errors.platform import BadRequest, NotFound, PermissionDenied, Unauthenticated

    try:
        yield
    except Unauthenticated as error:
        raise codes.WORKSPACE_LOGIN_MISSING.error(
            f"{what}: the workspace does not know this login", hint=_LOGIN
        ) from error
    except (BadRequest, NotFound, PermissionDenied) as error:
        raise codes.WORKSPACE_REFUSED.error(f"{what}: {error.error_code or 'refused'}", hint=hint) from error
    except DatabricksError as error:
        raise codes.WORKSPACE_FAILED.error(
            f"{what}: {error.error_code or 'the workspace failed'}", hint="try again later"
        ) from error
    except OSError as error:  # of the HTTP client, and of the SDK when its retries have run out
        raise codes.WORKSPACE_FAILED.error(
            f"{what}: the workspace cannot be reached ({type(error).__name__})", hint="check DATABRICKS_HOST"
        ) from error


def secret(scope: str, key: str) -> str:
    """The value of a secret: from `dbutils` on Databricks, elsewhere from the workspace.

    Raises ConfigError where there is no such scope or key, or it may not be read; TransientError where the workspace
    fails. No error holds the value, nor does the SDK's own log, which leaves out every `value`.
    """
    name = f"the secret {scope}/{key}"
    hint = f"databricks secrets put-secret {scope} {key}; its reader needs READ on the scope"
    if on_databricks():
        return _from_dbutils(scope, key, name, hint)
    workspace = client()
    with asking(f"cannot read {name}", hint):
        answer = workspace.secrets.get_secret(scope, key)
    try:
        return base64.b64decode(answer.value or "", validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        raise codes.SECRET_UNREADABLE.error(f"{name} is not text in UTF-8", hint="put it as a string value") from None


def connection_url(name: str) -> str:
    """`mysql://user@host:port` of a connection of Unity Catalog. It has a password, too, which Databricks gives nobody.

    Raises ConfigError where there is no such connection, it may not be used, or is none of MySQL's; TransientError
    where the workspace fails.
    """
    workspace = client()
    with asking(
        f"cannot read the connection {name}", f"databricks connections get {name}; its reader needs USE CONNECTION"
    ):
        held = workspace.connections.get(name)
    options = held.options or {}
    kind = "of no type" if held.connection_type is None else held.connection_type.value
    lacking = [option for option in ("host", "user") if not options.get(option)]
    if kind != "MYSQL" or lacking:
        what = f"has no {lacking[0]} that may be read" if kind == "MYSQL" else f"is {kind}, and not MYSQL"
        raise codes.CATALOG_CONNECTION_UNUSABLE.error(
            f"the connection {name} {what}", where="source.url",
            hint="CREATE CONNECTION a_name TYPE mysql OPTIONS (host 'db.example', port '3306', user 'cdc', password"
            " secret('scope', 'key')), and name that one; or write source.url as mysql://user@host:port",
        )  # fmt: skip
    host = f"[{options['host']}]" if ":" in options["host"] else options["host"]
    return f"mysql://{quote(options['user'], safe='')}@{host}:{options.get('port') or 3306}"


def _from_dbutils(scope: str, key: str, name: str, hint: str) -> str:
    try:
        from databricks.sdk.runtime import dbutils
    except ImportError as error:
        raise codes.PACKAGE_MISSING.error(
            "the Databricks SDK is not installed", hint=installing("databricks")
        ) from error
    try:
        return str(dbutils.secrets.get(scope=scope, key=key))
    except Exception as error:  # py4j's, with the Java side's exception as text
        text = str(error)
        if _MISSING in text or "PERMISSION_DENIED" in text:
            why = "it does not exist" if _MISSING in text else "PERMISSION_DENIED"
            raise codes.SECRET_UNREADABLE.error(f"cannot read {name}: {why}", hint=hint) from error
        raise codes.WORKSPACE_FAILED.error(
            f"cannot read {name}: dbutils failed ({type(error).__name__})", hint="try again"
        ) from error
