"""Two kinds of failure, and nothing else, cross a layer's border.

A `DefiniteError` stays until the user, the data or the source changes; trying again cannot help. A `TransientError`
may pass by itself. Each says what happened, where (table, position, setting) and what to do about it, on one line;
the cause chain is for the logs. Neither ever holds a secret: whoever raises one passes names, never values of options.
"""

from __future__ import annotations


class CdcError(Exception):
    """Base of both kinds; raise one of the two below."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)
        self.what = " ".join(what.split())
        self.where = " ".join(where.split())
        self.hint = " ".join(hint.split())

    def __str__(self) -> str:
        where = f" [{self.where}]" if self.where else ""
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{self.what}{where}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        # keyword-only arguments survive a pickle between Spark's processes
        return _rebuild, (type(self), self.what, self.where, self.hint)


def _rebuild(kind: type[CdcError], what: str, where: str, hint: str) -> CdcError:
    return kind(what, where=where, hint=hint)


class DefiniteError(CdcError):
    """The user, the data or the source must change first."""


class ConfigError(DefiniteError):
    """Wrong use: a command line, a configuration file or an option that cannot be right (exit code 2)."""


class TableError(DefiniteError):
    """One table cannot go on until something changes; the others can, so it alone may be quarantined."""


class TransientError(CdcError):
    """A time-out, a lost connection, a server that restarts: try again."""
