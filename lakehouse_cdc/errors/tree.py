"""The classes of errors, and the code that each error has.

Invariant: every error has a registered code. A `Code` is made once, at import, and adds itself to the registry, which
refuses a second one of the same number or name; the constructors take a code, so mypy refuses an error without one.
A code is the same object everywhere in a process (`error.code is codes.TABLE_GONE`): a pickled or encoded error holds
its number alone, and is rebuilt from the registry. No text holds a secret: it names options, never their values.
Tests: tests/errors/test_codes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar


class Scope(Enum):
    """What an error is about."""

    ROW = "row"  # one row or value of a table
    TABLE = "table"
    PIPELINE = "pipeline"


class CdcError(Exception):
    """Base of all; made by `Code.error`.

    `where` is for people: a table, a position, a setting. `table` is for decisions: the source table that the error is
    about, as database.table, or "" where it is about none or about several. `position` is for decisions, too: where in
    the binlog (FILE:POS) the table could not be read any further, or "".
    """

    def __init__(
        self, code: Code[Any], what: str, *, where: str = "", hint: str = "", table: str = "", position: str = ""
    ) -> None:
        super().__init__(code.number, what, where, hint, table, position)
        self.code = code
        self.what = " ".join(what.split())
        self.where = " ".join(where.split()) or " ".join(table.split())
        self.hint = " ".join(hint.split()) or code.remedy
        self.table = table
        self.position = position
        self.trailer = ""  # set by `codec.crossing`

    @property
    def kind(self) -> str:
        """How to react, in one word: config, definite or transient."""
        return self.code.kind_name

    def as_json(self) -> dict[str, str]:
        """The error for programs: the output of `--json`, and what crosses Spark."""
        return {
            "code": self.code.label, "name": self.code.name, "kind": self.kind, "scope": self.code.scope.value,
            "error": self.what, "where": self.where, "hint": self.hint, "table": self.table, "position": self.position,
        }  # fmt: skip

    def about(self, table: str, position: str = "") -> CdcError:
        """The same error, of that table, at that position of the binlog."""
        return type(self)(
            self.code, self.what, where=self.where or table, hint=self.hint, table=table, position=position
        )

    @property
    def sentences(self) -> tuple[str, str]:
        """What happened, and where; what to do."""
        where = f" [{self.where}]" if self.where else ""
        return f"{self.code}: {self.what}{where}", f"Hint: {self.hint}{self.trailer}"

    def __str__(self) -> str:
        return " ".join(self.sentences)

    def __reduce__(self) -> tuple[object, ...]:
        # codes are found by number, and keyword-only arguments survive a pickle between Spark's processes
        return rebuilt, (self.code.number, self.what, self.where, self.hint, self.table, self.position)


class DefiniteError(CdcError):
    """The user, the data or the source must change first."""


class ConfigError(DefiniteError):
    """Wrong use: a command line, a configuration file or an option that cannot be right (exit code 2)."""


class TableError(DefiniteError):
    """One table cannot continue until something changes; the others can, so it alone may be quarantined."""


class TransientError(CdcError):
    """A time-out, a lost connection, a server that restarts: try again."""


E = TypeVar("E", bound=CdcError, covariant=True)

REGISTRY: dict[int, Code[CdcError]] = {}  # by number; filled as the modules of `codes` are imported


@dataclass(frozen=True, eq=False)
class Code(Generic[E]):
    """One kind of error: a stable number and name, its class and scope, what it means and what to do about it."""

    number: int
    name: str
    of: type[E]
    scope: Scope
    meaning: str
    remedy: str

    def __post_init__(self) -> None:
        taken = {code.name for code in REGISTRY.values()}
        if self.number in REGISTRY or self.name in taken:
            raise ValueError(f"the error code {self.number} {self.name} is declared twice")
        REGISTRY[self.number] = self

    def error(self, what: str, *, where: str = "", hint: str = "", table: str = "", position: str = "") -> E:
        """An error of this code; without a `hint` it has the remedy of the code."""
        return self.of(self, what, where=where, hint=hint, table=table, position=position)

    @property
    def label(self) -> str:
        """CDC-NNNN."""
        return f"CDC-{self.number}"

    @property
    def kind_name(self) -> str:
        """config, definite or transient."""
        if issubclass(self.of, ConfigError):
            return "config"
        return "transient" if issubclass(self.of, TransientError) else "definite"

    @property
    def sets_aside(self) -> bool:
        """Whether silver sets the table aside, and continues with the others."""
        return issubclass(self.of, TableError)

    def __str__(self) -> str:
        return f"{self.label} {self.name}"


def rebuilt(number: int, what: str, where: str, hint: str, table: str, position: str = "") -> CdcError:
    """The error of the code with this number."""
    from lakehouse_cdc.errors import codes  # noqa: F401  # a process that only unpickles has not imported them

    return REGISTRY[number].error(what, where=where, hint=hint, table=table, position=position)
