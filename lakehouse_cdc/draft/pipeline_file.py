"""The settings of a pipeline for the tables of a live source, and their text: pure.

What comes from the source or the command line is in the text as JSON strings, which YAML reads as they are, or in
comments without a character that could end one. A password is there only as a reference: `Secret` refuses anything
else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from lakehouse_cdc.draft.survey import Survey
from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.pipeline.config.model import PipelineConfig

_LISTED = 100  # tables in comments; the largest ones
_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*", re.ASCII)
_UNITS = ("bytes", "KB", "MB", "GB", "TB")
Path = tuple[str, ...]  # keys, from the outermost to the innermost, or to the entry of a list


@dataclass(frozen=True)
class Draft:
    """What a pipeline's file is to say. `target` is that section of it, where it lies and the two schemas given.

    `server_ids` are left out of it where they are "".
    """

    name: str
    url: str
    password: str
    tls: str
    patterns: tuple[str, ...]
    target: Mapping[str, str | bool]
    survey: Survey
    server_ids: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """As the file has them."""
        exclude = {pattern_of(name): {"exclude": [*columns]} for name, columns in self.survey.excluded.items()}
        source = {"url": self.url, "password": self.password, "tables": [*self._reasons], "tls": self.tls}
        source |= {"server_ids": self.server_ids}
        name = {"silver_name": "{database}__{table}"} if self._share_names() else {}
        sections = {"name": self.name, "source": source, "target": {**self.target, **name}, "tables": exclude}
        return {key: _given(value) for key, value in sections.items() if value}

    @property
    def _reasons(self) -> dict[str, str]:
        """What `source.tables` lists, and why a table is left out."""
        left_out = {f"!{pattern_of(name)}": reason for name, reason in self.survey.left_out.items()}
        return {**dict.fromkeys(self.patterns, ""), **left_out}

    def config(self, password: str | None = None) -> PipelineConfig:
        """The configuration; `password` in place of the reference that is written. Raises ConfigError."""
        settings = self.settings
        if password is not None:
            settings["source"] |= {"password": password}
        try:
            return PipelineConfig.parse(settings)
        except ConfigError as error:
            # what is said of a file in general is no help with an option
            hint = "" if error.hint == codes.CONFIG_FILE_INVALID.remedy else error.hint
            raise codes.DRAFT_SETTING_INVALID.error(error.what, where="command line", hint=hint) from None

    def text(self, heading: Sequence[str]) -> str:
        """The file, with the tables and what is left out in comments. Raises ConfigError for what none may hold."""
        self.config()
        reasons: dict[Path, str] = {("source", "tables", pattern): why for pattern, why in self._reasons.items()}
        for table, columns in self.survey.excluded.items():
            reasons |= {("tables", pattern_of(table), "exclude", column): why for column, why in columns.items()}
        comments = (_comment(f"# {line}") for line in (*heading, *self._described()))
        text = "".join(f"{line}\n" for line in (*comments, *_lines(self.settings, reasons)))
        assert self.settings == yaml.safe_load(text)
        return text

    def _described(self) -> Iterator[str]:
        """The tables: a line each, the largest first."""
        sizes = self.survey.sizes
        tables = sorted(self.survey.tables.values(), key=lambda table: -sizes[table.name].bytes if sizes else 0)
        for table in tables[:_LISTED]:
            without = len(self.survey.excluded.get(table.name, ()))
            key = ", ".join(f"{column.name} {column.declared}" for column in table.key_columns)
            parts = [f"columns: {len(table.columns)}{f', {without} of them excluded' if without else ''}"]
            parts.append(f"key: {key}" if key else "no key: equal rows are counted")
            if sizes:
                size = sizes[table.name]
                parts.insert(0, f"about {size.rows:,} rows, {_of_bytes(size.bytes)}")
            yield f"  {table.name}: {'; '.join(parts)}"
        if len(tables) > _LISTED:
            yield f"  and {len(tables) - _LISTED:,} more"

    def _share_names(self) -> bool:
        """Whether two source tables would have the same silver table, or one the name of the ledger."""
        place = {key: str(value) for key, value in self.target.items()}
        layout = Layout(
            self.name, place["bronze"], place["silver"], path=place.get("path"), catalog=place.get("catalog")
        )
        names = self.survey.tables
        return bool(layout.sharing_names(names)) or any(layout.takes_ledger(name) for name in names)


def _given(value: Any) -> Any:
    return {key: one for key, one in value.items() if one != ""} if isinstance(value, Mapping) else value


def _of_bytes(number: int) -> str:
    """With a unit, in tens of three digits at most."""
    unit = 0
    size = float(number)
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.{0 if unit == 0 or size >= 10 else 1}f} {_UNITS[unit]}"


def _lines(value: Mapping[str, Any], reasons: Mapping[Path, str], path: Path = ()) -> Iterator[str]:
    """YAML of nested mappings, with lists of texts in them; `reasons` are comments after entries of lists."""
    indent = "  " * len(path)
    for key, inner in value.items():
        name = f"{indent}{text_of(key)}:"
        if isinstance(inner, Mapping):
            yield name
            yield from _lines(inner, reasons, (*path, key))
        elif isinstance(inner, list):
            yield name
            for entry in inner:
                reason = reasons.get((*path, key, entry), "")
                yield _comment(f"{indent}  - {text_of(entry)}", f"  # {reason}" if reason else "")
        else:
            yield f"{name} {text_of(inner) if isinstance(inner, str) else json.dumps(inner)}"


def text_of(value: str) -> str:
    """A string as YAML reads it, on one line: as it is where that cannot be misread, else as JSON.

    YAML knows more line breaks than JSON, and no surrogates.
    """
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}"
        for c in json.dumps(value, ensure_ascii=False)
    )


def _comment(*parts: str) -> str:
    """One line, whatever names hold."""
    return "".join(c if c.isprintable() else "?" for c in "".join(parts))
