"""Secrets by reference: `${env:NAME}`, `${file:/path}`, `${secret:scope/key}` (of a Databricks workspace).

The configuration holds the reference, never the value; it is resolved where a session is opened. A literal password
is refused: it would end up in version control.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lakehouse_cdc.errors import codes
from lakehouse_cdc.runtime.workspace import connection_url, secret

REFERENCE = re.compile(r"\$\{(?:(?:env|file):[^}]+|secret:[^}/]+/[^}/]+)\}")


CONNECTION = re.compile(r"\$\{connection:([^}/]+)\}")  # of Unity Catalog; no secret, for all but its password is shown


def server_url(url: str) -> str:
    """The url itself, or that of the connection that it refers to. Raises ConfigError or TransientError."""
    named = CONNECTION.fullmatch(url)
    return url if named is None else connection_url(named[1])


class Secret(str):
    """A reference to a secret, or the empty text. `reveal()` gives its value; nothing else does."""

    def __repr__(self) -> str:
        return f"Secret({str.__repr__(self) if REFERENCE.fullmatch(self) else '...'})"

    def reveal(self) -> str:
        """The value. Raises ConfigError if the reference leads nowhere, TransientError if a workspace fails to answer.

        The error names the reference alone.
        """
        if not REFERENCE.fullmatch(self):
            return ""
        kind, _, name = self[2:-1].partition(":")
        if kind == "env":
            if name not in os.environ:
                raise codes.SECRET_UNREADABLE.error(
                    f"the environment variable {name} is not set", hint=f"export {name}=..."
                )
            return os.environ[name]
        if kind == "file":
            try:
                return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise codes.SECRET_UNREADABLE.error(
                    f"cannot read the secret's file {name}: {error.strerror}"
                ) from error
        scope, _, key = name.partition("/")
        return secret(scope, key)
