"""Secrets by reference: `${env:NAME}`, `${file:/path}`, `${secret:scope/key}` (of a Databricks workspace).

The configuration holds the reference, never the value; it is resolved where a session is opened. A literal password
is refused: it would end up in version control.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.runtime.workspace import secret

_REFERENCE = re.compile(r"^\$\{(env|file|secret(?=:[^}/]+/[^}/]+\}$)):([^}]+)\}$")


class Secret(str):
    """A reference to a secret. `reveal()` gives its value; nothing else does."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(cls._checked, core_schema.str_schema())

    @classmethod
    def _checked(cls, text: str) -> Secret:
        if text and not _REFERENCE.match(text):
            raise ValueError("a secret is given by reference: ${env:NAME}, ${file:/path} or ${secret:scope/key}")
        return cls(text)

    def __repr__(self) -> str:
        return f"Secret({str.__repr__(self) if _REFERENCE.match(self) else '...'})"

    def reveal(self) -> str:
        """The value. Raises ConfigError if the reference leads nowhere, TransientError if a workspace fails to answer.

        The error names the reference alone.
        """
        match = _REFERENCE.match(self)
        if match is None:
            return ""
        kind, name = match.groups()
        if kind == "env":
            if name not in os.environ:
                raise ConfigError(f"the environment variable {name} is not set", hint=f"export {name}=...")
            return os.environ[name]
        if kind == "file":
            try:
                return Path(name).read_text(encoding="utf-8").rstrip("\r\n")
            except OSError as error:
                raise ConfigError(f"cannot read the secret's file {name}: {error.strerror}") from error
        scope, _, key = name.partition("/")
        return secret(scope, key)
