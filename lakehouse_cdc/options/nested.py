"""Values made of others: lists, and maps from names. A problem of a part has the part in its path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from lakehouse_cdc.options.kinds import Invalid, JsonSchema, Kind, Problem, Text

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = TypeVar("P", int, str)


def each(parts: Iterable[tuple[P, Kind[T], Any]]) -> dict[P, T]:
    """The checked value of each part. Raises Invalid with the problems of all."""
    values: dict[P, T] = {}
    problems: list[Problem] = []
    for part, kind, value in parts:
        problems += _put(values, part, kind, value)
    if problems:
        raise Invalid(problems)
    return values


def _put(values: dict[P, T], part: P, kind: Kind[T], value: Any) -> list[Problem]:
    try:
        values[part] = kind.check(value)
    except Invalid as error:
        return [problem.below(part) for problem in error.problems]
    return []


class ListOf(Kind[tuple[T_co, ...]]):
    """A list; as a source's option, in JSON or with commas between, unless its items may hold some."""

    def __init__(
        self,
        item: Kind[T_co],
        *,
        least: int = 0,
        most: int | None = None,
        distinct: bool = False,
        commas: bool = True,
    ) -> None:
        self._item, self._least, self._most, self._distinct, self._commas = item, least, most, distinct, commas
        self.title = "list" if isinstance(item, Text) else f"list, each {item.title}"

    def check(self, value: Any) -> tuple[T_co, ...]:
        if not isinstance(value, list | tuple):
            raise Invalid("expected a list, such as [a, b]")
        items = [*each((i, self._item, one) for i, one in enumerate(value)).values()]
        if len(items) < self._least:
            raise Invalid(f"expected at least {self._least}")
        if self._most is not None and len(items) > self._most:
            raise Invalid(f"expected at most {self._most}")
        if self._distinct and len(set(items)) < len(items):
            raise Invalid("each is named once")
        return tuple(items)

    def of_text(self, text: str) -> tuple[T_co, ...]:
        if text.lstrip().startswith("[") or not self._commas:
            return super().of_text(text)
        return self.check([word.strip() for word in text.split(",") if word.strip()])

    def json_schema(self) -> JsonSchema:
        return {
            "type": "array",
            "items": self._item.json_schema(),
            **({"minItems": self._least} if self._least else {}),
            **({"maxItems": self._most} if self._most is not None else {}),
            **({"uniqueItems": True} if self._distinct else {}),
        }


class MapOf(Kind[dict[str, T]]):
    """Names with a value each, all of the kind `named`; no name begins with one of `reserved`, in any case."""

    def __init__(
        self, value: Kind[T], *, names: str = "name", reserved: tuple[str, ...] = (), named: Text | None = None
    ) -> None:
        self.value, self.names = value, names
        self._named = named or Text()
        self._reserved = "|".join(map(_in_any_case, reserved))
        self.title = f"{{{names}: {value.title}}}"

    def check(self, value: Any) -> dict[str, T]:
        if not isinstance(value, Mapping):
            raise Invalid(f"expected {{{self.names}: {self.value.title}}}")
        for name in value:
            self._named.check(name)
            if self._reserved and re.match(self._reserved, name):
                raise Invalid(f"{name} is set by lakehouse-cdc itself")
        return each((name, self.value, one) for name, one in value.items())

    def json_schema(self) -> JsonSchema:
        rules: JsonSchema = {"pattern": f"^(?:{self._named.pattern})$"} if self._named.pattern else {}
        rules |= {"not": {"pattern": f"^(?:{self._reserved})"}} if self._reserved else {}
        names = {"propertyNames": rules} if rules else {}
        return {"type": "object", "additionalProperties": self.value.json_schema(), **names}


def _in_any_case(text: str) -> str:
    """A pattern for the text; a JSON schema's patterns have no flag for it."""
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else re.escape(c) for c in text)
