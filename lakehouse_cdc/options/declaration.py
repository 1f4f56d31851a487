"""An option is a field of a class, and a section of `pipeline.yml` is such a class: each option is declared once.

    chunk_rows: int | None = option(Integer("rows"), "...", default=None, spark="chunkRows", changes=NEXT_RUN)

declares the key and its type (which mypy compares with the kind's), its default, its unit, its meaning, its name as an
option of the `mysql_cdc` source, and since when a change of it has an effect. Everything else is made from that: the
check of the file and of the source's options, the JSON schema, and the page of the documentation.

A section may have rules over several keys: `contradiction` for the loader, and `json_rules`, the same for the schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar, overload

from lakehouse_cdc.options.kinds import Invalid, JsonSchema, Kind, Problem, SecretReference
from lakehouse_cdc.options.nested import MapOf, each

T = TypeVar("T")
_OPTION = "lakehouse_cdc.option"


class Change(str, Enum):
    """When a changed value of an option has an effect on a pipeline that has run."""

    NEXT_RUN = "the next run"
    REREAD = "the next run, by reading again"
    REBUILD = "the next run, by building silver again"
    NEW_TABLE = "silver tables made after it"
    NEVER = "a new pipeline"


NEXT_RUN, REREAD, REBUILD, NEW_TABLE, NEVER = Change


@dataclass(frozen=True)
class Option:
    """One option: `path` as in the file (empty for one of the source alone), `spark` as an option of the source."""

    path: str
    spark: str
    kind: Kind[Any]
    meaning: str
    changes: Change
    default: Any
    required: bool
    otherwise: str

    @property
    def secret(self) -> bool:
        """Whether its value must not be shown."""
        return isinstance(self.kind, SecretReference)


@dataclass(frozen=True)
class _Declared:
    kind: Kind[Any]
    meaning: str
    changes: Change
    spark: str
    otherwise: str


@overload
def option(kind: Kind[T], meaning: str, *, changes: Change, spark: str = "", otherwise: str = "") -> T: ...
@overload
def option(
    kind: Kind[T], meaning: str, *, changes: Change, default: None, spark: str = "", otherwise: str = ""
) -> T | None: ...
@overload
def option(kind: Kind[T], meaning: str, *, changes: Change, default: T, spark: str = "", otherwise: str = "") -> T: ...
def option(
    kind: Kind[Any], meaning: str, *, changes: Change, default: Any = MISSING, spark: str = "", otherwise: str = ""
) -> Any:
    """The field of an option. Without a default it is required; one whose default is None may be null in the file.

    `otherwise` is what a missing value means, where the default does not say it.
    """
    metadata = {_OPTION: _Declared(kind, meaning, changes, spark, otherwise)}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A section of the file: a closed set of keys. `given` are those that it has, in their order."""

    given: tuple[str, ...] = field(default=(), compare=False, repr=False)
    json_rules: ClassVar[tuple[JsonSchema, ...]] = ()

    def contradiction(self) -> str:
        """What keys of the section say against each other; '' for nothing."""
        return ""


K = TypeVar("K", bound=Keys)


class Section(Kind[K], Generic[K]):
    """The values of a section: a mapping with its keys, and no others."""

    title = "keys"

    def __init__(self, keys: type[K]) -> None:
        self.keys = keys

    def check(self, value: Any) -> K:
        if not isinstance(value, Mapping):
            raise Invalid("expected keys with values")
        declared = {one.path: one for one in declared_in(self.keys)}
        problems = [
            Problem("unknown key", (str(key),), _below(str(key), declared) or nearest(str(key), declared), unknown=True)
            for key in value
            if key not in declared
        ]
        problems += [
            Problem("is required", (one.path,)) for one in declared.values() if one.required and one.path not in value
        ]
        values: dict[str, Any] = {}
        try:
            values = each((key, _OrNull(declared[key]), value[key]) for key in declared if key in value)
        except Invalid as error:
            problems += error.problems
        if problems:
            raise Invalid(problems)
        section = self.keys(**values, given=tuple(values))
        if what := section.contradiction():
            raise Invalid(what)
        return section

    def json_schema(self) -> JsonSchema:
        declared = [*declared_in(self.keys)]
        rules = {"allOf": [*self.keys.json_rules]} if self.keys.json_rules else {}
        return {
            "type": "object",
            "properties": {one.path: _described(one) for one in declared},
            "required": [one.path for one in declared if one.required],
            "additionalProperties": False,
            **rules,
        }


def _below(name: str, declared: Mapping[str, Option]) -> str:
    """A hint for a key that a section among these has; '' for another."""
    sections = [
        path
        for path, one in declared.items()
        if isinstance(one.kind, Section) and any(below.path == name for below in declared_in(one.kind.keys))
    ]
    return f"{name} is a key of {sections[0]}: indent it below that" if sections else ""


class _OrNull(Kind[Any]):
    """The values of an option: null too, where that is the default."""

    def __init__(self, one: Option) -> None:
        self._kind, self._nullable = one.kind, not one.required and one.default is None

    def check(self, value: Any) -> Any:
        return None if value is None and self._nullable else self._kind.check(value)

    def json_schema(self) -> JsonSchema:
        schema = self._kind.json_schema()
        return {"anyOf": [schema, {"type": "null"}]} if self._nullable else schema


def _described(one: Option) -> JsonSchema:
    schema = _OrNull(one).json_schema()
    whole = isinstance(one.kind, Section)
    default = {} if one.required or one.default is None or whole else {"default": one.default}
    return {"description": one.meaning.replace("`", ""), **schema, **default}


def declared_in(cls: type[Any]) -> Iterator[Option]:
    """The options that a class declares, in their order, each with its key as path."""
    for one in fields(cls):
        if (declared := one.metadata.get(_OPTION)) is not None:
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            yield Option(
                one.name, declared.spark, declared.kind, declared.meaning, declared.changes,
                None if default is MISSING else default, default is MISSING, declared.otherwise,
            )  # fmt: skip


def table_of(keys: type[Keys], above: str = "") -> Iterator[Option]:
    """Every option of a section and of those below it, with its whole path; a section itself is none."""
    for one in declared_in(keys):
        path, kind = f"{above}{one.path}", one.kind
        if isinstance(kind, MapOf) and isinstance(kind.value, Section):
            yield from table_of(kind.value.keys, f"{path}.<{kind.names}>.")
        elif isinstance(kind, Section):
            yield from table_of(kind.keys, f"{path}.")
        else:
            yield Option(path, one.spark, kind, one.meaning, one.changes, one.default, one.required, one.otherwise)


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
