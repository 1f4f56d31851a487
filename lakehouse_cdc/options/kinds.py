"""What values an option can have: the check of a YAML value, of a text, and the same rule as a JSON schema.

Invariant: `check` accepts a JSON value exactly if `json_schema` does. So an editor that knows the schema and the loader
never disagree. Why it holds: each kind has both, side by side, and no kind accepts what JSON cannot hold (NaN, keys
that are no text). Two details follow JSON Schema: 2.0 is an integer, and `true` is not the number 1.

An error never repeats the value, which may be a secret in the wrong place.

Guards: tests/pipeline/test_config_schema.py.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lakehouse_cdc.model.place import EXAMPLES, FILE_URL, URL
from lakehouse_cdc.model.start_point import PLACES, WORDS, StartValue
from lakehouse_cdc.options.secrets import CONNECTION, REFERENCE, Secret
from lakehouse_cdc.schema.masks import LEAST_KEPT, MOST_KEPT, SIDES, parsed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
JsonSchema = dict[str, Any]
MOST = 2**63 - 1


@dataclass(frozen=True)
class Problem:
    """What is wrong with the value at a path below the one that was checked; `unknown`: with its key."""

    what: str
    path: tuple[str | int, ...] = ()
    hint: str = ""
    unknown: bool = False

    @property
    def message(self) -> str:
        """The path, and what is wrong there."""
        key = ".".join(map(str, self.path))
        return f"{key}: {self.what}" if key else self.what

    def below(self, part: str | int) -> Problem:
        """The same, seen from one step further up."""
        return Problem(self.what, (part, *self.path), self.hint, self.unknown)


class Invalid(ValueError):
    """A value that its option cannot have, with everything that is wrong about it."""

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems = [Problem(problems)] if isinstance(problems, str) else list(problems)
        super().__init__("; ".join(problem.what for problem in self.problems))

    @property
    def first(self) -> Problem:
        """The one to report: a misspelt key before what is missing because of it."""
        return min(self.problems, key=lambda problem: not problem.unknown)


class Kind(ABC, Generic[T_co]):
    """The values of an option. `title` is what the documentation calls them."""

    title: str
    unit: str = ""

    @abstractmethod
    def check(self, value: Any) -> T_co:
        """The value as the program uses it, from one as YAML gives it. Raises Invalid."""

    @abstractmethod
    def json_schema(self) -> JsonSchema:
        """The schema of the values that `check` accepts."""

    def of_text(self, text: str) -> T_co:
        """The value from the text of a source's option. Raises Invalid."""
        try:
            return self.check(json.loads(text))
        except json.JSONDecodeError:
            raise Invalid(f"expected {self.title}, in JSON") from None


@dataclass(frozen=True)
class Text(Kind[str]):
    """A text; all of it matches `pattern`, which is described by `expected`."""

    pattern: str = ""
    expected: str = "text"
    title: str = "text"

    def check(self, value: Any) -> str:
        if self.pattern and not (isinstance(value, str) and re.fullmatch(self.pattern, value)):
            raise Invalid(f"expected {self.expected}")
        if not isinstance(value, str):
            raise Invalid("expected text (a number, a date or a word such as yes is text in quotes)")
        return value

    def of_text(self, text: str) -> str:
        return self.check(text)

    def json_schema(self) -> JsonSchema:
        return {"type": "string", **({"pattern": f"^(?:{self.pattern})$"} if self.pattern else {})}


class Url(Text):
    """`mysql://user@host:port`, without a password; the port may be left out, and a user be percent-encoded.

    Several servers are hosts with commas between, `mysql://user@one:3306,two:3306`, or a list of urls with one user,
    which means the same. Or one is a connection of Unity Catalog, by reference.
    """

    def __init__(self) -> None:
        host = r"(?:[^:/?#@,\[\]\s]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
        super().__init__(rf"mysql://[^:/?#@\s]+@{host}(?:,{host})*/?", "mysql://user@host:port", "url")

    def check(self, value: Any) -> str:
        if not isinstance(value, list | tuple):
            return value if isinstance(value, str) and CONNECTION.fullmatch(value) else self._one(value)
        if not value:
            raise Invalid("expected at least 1")
        servers = []
        for i, one in enumerate(value):
            try:
                servers.append(self._one(one).partition("://")[2].rstrip("/"))
            except Invalid as error:  # noqa: PERF203
                raise Invalid([error.first.below(i)]) from None
        user = servers[0].rpartition("@")[0] + "@"  # of another one who connects says that there is one user
        return "mysql://" + ",".join([servers[0], *(one.removeprefix(user) for one in servers[1:])])

    def _one(self, value: Any) -> str:
        text = value if isinstance(value, str) else ""
        scheme, _, rest = text.partition("://")
        if ":" in rest.rpartition("@")[0]:
            raise Invalid("a password does not belong in the url; write password: ${env:NAME} beside it")
        server, _, database = rest.partition("/")
        if database and re.fullmatch(self.pattern, f"{scheme}://{server}"):
            raise Invalid(f"expected {self.expected}, and no database after it: source.tables names them")
        return super().check(value)

    def json_schema(self) -> JsonSchema:
        one = super().json_schema()
        referred = {"type": "string", "pattern": f"^(?:{CONNECTION.pattern})$"}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}, referred]}

    def of_text(self, text: str) -> str:
        """As an option of the source, where who connects checks it, and repeats no part of it."""
        return text


_NO_URL = r"(?![A-Za-z][A-Za-z0-9+.-]+:/)[\s\S]+"


@dataclass(frozen=True)
class _Somewhere(Text):
    """A text that says where something is; where it cannot be there, `hint` says what else to do."""

    hint: str = ""

    def check(self, value: Any) -> str:
        try:
            return super().check(value)
        except Invalid as error:
            raise Invalid([Problem(error.first.what, hint=self.hint)]) from None


class Place(_Somewhere):
    """Where tables and checkpoints can be: a folder that programs on this machine see, or a place in a store.

    Any other URL would be taken for the name of a folder.
    """

    def __init__(self) -> None:
        super().__init__(
            rf"(?:{URL}|{FILE_URL}|{_NO_URL})",
            "a folder of this machine or of a mounted volume (file:///folder is one),"
            f" or {' or '.join(EXAMPLES.values())} (of letters, digits, _ . = -)",
            "folder or url",
            "use one of these stores, or mount the store and name the mount's folder, or run on Databricks with"
            " target.catalog",
        )


class SecretReference(Kind[Secret]):
    """A secret by reference, or the empty text; as a source's option, its value."""

    title = "reference"

    def check(self, value: Any) -> Secret:
        text = Text().check(value)
        if text and not REFERENCE.fullmatch(text):
            raise Invalid("a secret is given by reference: ${env:NAME}, ${file:/path} or ${secret:scope/key}")
        return Secret(text)

    def of_text(self, text: str) -> Secret:
        return Secret(text)

    def json_schema(self) -> JsonSchema:
        return {"type": "string", "pattern": f"^(?:{REFERENCE.pattern})?$"}


class Flag(Kind[bool]):
    """true or false."""

    title = "true or false"

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Invalid("expected true or false")
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Integer(Kind[int]):
    """A whole number above zero, up to `most`: what a long holds."""

    unit: str = ""
    title: str = "whole number"
    most: int = MOST

    def check(self, value: Any) -> int:
        if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
            raise Invalid("expected a whole number")
        return int(_within(value, self.most))

    def of_text(self, text: str) -> int:
        return self.check(_parsed(text, int))

    def json_schema(self) -> JsonSchema:
        return {"type": "integer", "exclusiveMinimum": 0, "maximum": self.most}


@dataclass(frozen=True)
class Number(Kind[float]):
    """A number above zero."""

    unit: str = ""
    title: str = "number"

    def check(self, value: Any) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or (isinstance(value, float) and math.isnan(value))
        ):
            raise Invalid("expected a number")
        return float(_within(value, MOST))

    def of_text(self, text: str) -> float:
        return self.check(_parsed(text, float))

    def json_schema(self) -> JsonSchema:
        return {"type": "number", "exclusiveMinimum": 0, "maximum": MOST}


def _within(value: float, most: int) -> float:
    if value <= 0:
        raise Invalid("expected a number greater than 0")
    if value > most:
        raise Invalid(f"expected at most {most}")
    return value


def _parsed(text: str, kind: type[int] | type[float]) -> int | float:
    try:
        return kind(text)
    except ValueError:
        raise Invalid("expected a number") from None


class Choice(Kind[T_co]):
    """One of some values; as a source's option, in any case."""

    def __init__(self, values: tuple[T_co, ...]) -> None:
        self.values = values
        self.title = _or([f"`{value}`" for value in values])

    def check(self, value: Any) -> T_co:
        for one in self.values:
            if one == value and not isinstance(value, bool):
                return one
        raise Invalid(f"expected {_or([str(one) for one in self.values])}")

    def of_text(self, text: str) -> T_co:
        return self.check(text.lower())

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.values)}


class Registered(Kind[str]):
    """The name of something that a registry has, as `names` gives them when a value is checked."""

    def __init__(self, what: str, names: Callable[[], Iterable[str]]) -> None:
        self.title = f"name of a {what}"
        self._what, self._names = what, names

    def check(self, value: Any) -> str:
        name, known = Text().check(value), sorted(self._names())
        if name not in known:
            raise Invalid(f"there is no {self._what} {name}; there are {', '.join(known) or 'none'}")
        return name

    def json_schema(self) -> JsonSchema:
        return {"enum": sorted(self._names())}


class Mask(Kind[Any]):
    """What of a value is let through: see `schema.masks`. The value stays as it was written."""

    title = "`null`, `hash`, `{keep_first: n}` or `{keep_last: n}`"

    def check(self, value: Any) -> Any:
        if isinstance(value, dict):
            value = {side: int(n) if isinstance(n, float) and n.is_integer() else n for side, n in value.items()}
        try:
            parsed(value)
        except ValueError as error:
            raise Invalid(str(error)) from None
        return value

    def json_schema(self) -> JsonSchema:
        count = {"type": "integer", "minimum": 0, "maximum": MOST_KEPT}
        some = [{"properties": {side: {"minimum": LEAST_KEPT}}, "required": [side]} for side in SIDES]
        kept = {"type": "object", "properties": dict.fromkeys(SIDES, count), "additionalProperties": False}
        return {"anyOf": [{"enum": [None, "null", "hash"]}, {**kept, "anyOf": some}]}


class StartPlace(Kind[StartValue]):
    """Where in the log a stream begins: see `model.start_point`. The value stays as it was written."""

    title = "`now`, `earliest`, `{time: ...}`, `{position: FILE:POS}` or `{gtid: SET}`"

    def check(self, value: Any) -> StartValue:
        if isinstance(value, str) and value in WORDS:
            return value
        if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= PLACES.keys():
            raise Invalid(f"expected {' or '.join(WORDS)}, or one of {', '.join(PLACES)} with its value")
        [(name, text)] = value.items()
        pattern, expected = next(place for kind, place in PLACES.items() if kind == name)
        return {name: Text(pattern, expected).check(text)}

    def of_text(self, text: str) -> StartValue:
        return super().of_text(text) if text.lstrip().startswith("{") else self.check(text.lower())

    def json_schema(self) -> JsonSchema:
        places = {kind: Text(pattern).json_schema() for kind, (pattern, _) in PLACES.items()}
        one = {"type": "object", "properties": places, "additionalProperties": False}
        return {"anyOf": [{"enum": list(WORDS)}, {**one, "minProperties": 1, "maxProperties": 1}]}


class PropertyValue(Kind[bool | int | str]):
    """The value of a table's property."""

    title = "text, whole number, or true or false"

    def check(self, value: Any) -> bool | int | str:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, bool | int | str):
            raise Invalid(f"expected {self.title}")
        return value

    def json_schema(self) -> JsonSchema:
        return {"type": ["boolean", "integer", "string"]}


def _or(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
