"""The configuration file, and settings that are given beside it; errors name the line.

The file is parsed twice over the same text: into plain values for pydantic, and into YAML nodes, whose line numbers
turn a path such as `source.tables.0` into `pipeline.yml:5`. An unknown key is refused, with the nearest known one.

A setting (`source.url=mysql://cdc@db:3306`) takes the place of what the file says of its key, as if it were written
there: its value is YAML, and checked as all others are. So one file serves several sources, or the parameters of a job.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.pipeline.config.model import PipelineConfig, TableConfig


def load(path: Path, settings: Sequence[str] = ()) -> PipelineConfig:
    """Read and check a configuration file, with `settings` (KEY=VALUE) in place of what it says.

    Raises ConfigError with file, line and the key's path.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="name the file with -c") from error
    try:
        values = yaml.safe_load(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError(f"not YAML: {getattr(error, 'problem', None) or 'syntax error'}", where=where) from error
    if not isinstance(values, dict):
        raise ConfigError("the file holds no settings", where=str(path), hint="see the README's configuration")
    given = [_parsed(setting) for setting in settings]
    for key, value in given:
        _set(values, key, value)
    try:
        return PipelineConfig.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        # a misspelt key also makes the right one missing: the spelling is what to say
        first = min(found, key=lambda e: e["type"] != "extra_forbidden")
        at = tuple(str(part) for part in first["loc"])
        here = next((key for key, _ in reversed(given) if key == at[: len(key)]), None)
        where = f"{path}:{_line(root, first['loc'])}" if here is None else f"--set {'.'.join(here)}"
        # without the cause: pydantic's text repeats the input, which may be a secret
        raise ConfigError(_message(first), where=where, hint=_hint(first)) from None


def _parsed(setting: str) -> tuple[tuple[str, ...], Any]:
    """The path of its key, and its value. The pattern of a table may hold dots; a setting of one does not."""
    name, given, text = setting.partition("=")
    where = f"--set {name}"
    if not given or not name:
        raise ConfigError(f"{setting!r} is no setting", where="--set", hint="write it as source.url=mysql://cdc@db")
    path = name.split(".")
    if path[0] == "tables" and len(path) > 2:
        path = ["tables", ".".join(path[1:-1]), path[-1]]
    try:
        return tuple(path), yaml.safe_load(text)
    except yaml.YAMLError:
        # without the cause, which repeats the text
        raise ConfigError("the value is not YAML", where=where, hint="put it in quotes of YAML's") from None


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for i, part in enumerate(path[:-1]):
        if values.get(part) is None:
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            raise ConfigError(f"{'.'.join(path[: i + 1])} has no keys", where=f"--set {'.'.join(path)}")
    values[path[-1]] = value


def _message(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    text = "unknown key" if error["type"] == "extra_forbidden" else error["msg"].removeprefix("Value error, ")
    return f"{key}: {text}" if key else text


def _hint(error: Any) -> str:
    if error["type"] != "extra_forbidden":
        return ""
    model: Any = PipelineConfig
    for part in error["loc"][:-1]:
        found = getattr(model, "model_fields", {}).get(str(part))
        model = found.annotation if found else TableConfig
    known = list(getattr(model, "model_fields", {}))
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _line(node: yaml.Node | None, path: Sequence[int | str]) -> int:
    """The line of the deepest node on the path; lines count from 1."""
    line = node.start_mark.line + 1 if node else 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if k.value == str(part)]
            if not found:
                return line
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            return line
    return line
