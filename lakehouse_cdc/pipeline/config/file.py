"""The configuration file, and settings that are given beside it; errors name the line.

The file is parsed twice over the same text: into plain values, which are checked, and into YAML nodes, whose line
numbers turn a path such as `source.tables.0` into `pipeline.yml:5`. Of an unknown key the error
names the nearest known one.

A setting (`source.url=mysql://cdc@db:3306`) takes the place of what the file says of its key, as if it were written
there: its value is YAML, and checked as all others are. So one file serves several sources, or the parameters of a job.
A setting without a value (`source.url=`), as an empty parameter makes one, leaves what the file says; `null` is none,
and `''` an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from lakehouse_cdc.errors import codes
from lakehouse_cdc.options.declaration import Section
from lakehouse_cdc.options.kinds import Invalid
from lakehouse_cdc.pipeline.config.model import PipelineConfig


def load(file: Path, settings: Sequence[str] = ()) -> PipelineConfig:
    """Read and check a configuration file, with `settings` (KEY=VALUE) in place of what it says.

    Raises ConfigError with file, line and the key's path.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        drafted = "; lakehouse-cdc init --help says how one is drafted" if isinstance(error, FileNotFoundError) else ""
        raise codes.CONFIG_FILE_UNREADABLE.error(
            f"cannot read {file}: {error.strerror}", hint=f"name the file with -c{drafted}"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise codes.CONFIG_FILE_INVALID.error(
            "the text is not UTF-8", where=f"{file}:{line}", hint="save the file as UTF-8"
        ) from None
    try:
        values = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise codes.CONFIG_FILE_INVALID.error(
            f"not YAML: {getattr(error, 'problem', None) or 'syntax error'}",
            where=f"{file}:{mark.line + 1}" if mark else str(file),
            hint=_yaml_hint(text.splitlines()[: mark.line + 1] if mark else []),
        ) from None
    if again := _repeated(root):
        raise codes.CONFIG_FILE_INVALID.error(
            f"{again.value} is there twice", where=f"{file}:{again.start_mark.line + 1}", hint="put the two together"
        )
    if not isinstance(values, dict):
        raise codes.CONFIG_FILE_INVALID.error(
            "the file holds no settings", where=str(file), hint="see docs/reference/configuration.md"
        )
    given = [parsed for setting in settings if (parsed := _parsed(setting)) is not None]
    for key, value in given:
        _set(values, key, value)
    try:
        return Section(PipelineConfig).check(values)
    except Invalid as error:
        problem = error.first
        path = tuple(map(str, problem.path))
        setting = next((key for key, _ in reversed(given) if key[: len(path)] == path[: len(key)]), None)
        where = f"{file}:{_line(root, problem.path)}" if setting is None else f"--set {'.'.join(setting)}"
        raise codes.CONFIG_FILE_INVALID.error(problem.message, where=where, hint=problem.hint) from None


def _yaml_hint(lines: Sequence[str]) -> str:
    """What is most likely wrong where the last of these lines cannot be read."""
    last = lines[-1] if lines else ""
    if "\t" in last[: len(last) - len(last.lstrip())]:
        return "indent with spaces: YAML has no tabs there"
    if any(re.search(r"[\[,:-]\s*[*!&@`%]", line) for line in lines[-2:]):
        return 'write it in quotes, such as ["*.orders", "!shop.audit"]: YAML gives * and ! a meaning of its own'
    return "keys of one section begin in the same column, and have a blank after the colon"


def _repeated(node: yaml.Node | None) -> yaml.ScalarNode | None:
    """The first key that its section has twice; YAML's loader would take the last, and say nothing."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    return key
                seen.add(key.value)
    values = [value for _, value in node.value] if isinstance(node, yaml.MappingNode) else []
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return next(filter(None, map(_repeated, [*values, *items])), None)


def _parsed(setting: str) -> tuple[tuple[str, ...], Any] | None:
    """The path of its key, and its value, None where none is given.

    The pattern of a table may hold dots; a setting of one does not.
    """
    name, given, text = setting.partition("=")
    where = f"--set {name}"
    if not given or not name:
        raise codes.SETTING_INVALID.error(
            f"{setting!r} is no setting", where="--set", hint="write it as source.url=mysql://cdc@db"
        )
    if not text.strip():
        return None
    path = name.split(".")
    if path[0] == "tables" and len(path) > 2:
        path = ["tables", ".".join(path[1:-1]), path[-1]]
    try:
        return tuple(path), yaml.safe_load(text)
    except yaml.YAMLError:
        # without the cause, which repeats the text
        raise codes.SETTING_INVALID.error(
            "the value is not YAML", where=where, hint="put it in quotes, as YAML has them"
        ) from None


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for i, part in enumerate(path[:-1]):
        if values.get(part) is None:
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            section = ".".join(path[: i + 1])
            raise codes.SETTING_INVALID.error(
                f"{section} has no keys", where=f"--set {'.'.join(path)}", hint=f"write it as {section}=..."
            )
    values[path[-1]] = value


def _line(node: yaml.Node | None, path: Sequence[int | str]) -> int:
    """The line of the deepest node on the path; lines count from 1."""
    line = node.start_mark.line + 1 if node else 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            entries = [(k, v) for k, v in node.value if k.value == str(part)]
            if not entries:
                return line
            line, node = entries[0][0].start_mark.line + 1, entries[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
