"""The bundle as the Databricks CLI would load it: files merged, one target chosen, references resolved.

It knows only what this bundle uses, and refuses what it does not know: a reference that leads nowhere is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "bundles"
TARGETS = ("dev", "prod")
# what only a workspace knows
WORKSPACE = {"workspace.file_path": "/Workspace/files", "workspace.current_user.userName": "someone@example.com"}
_REFERENCE = re.compile(r"\$\{([^}]+)\}")


def read(path: Path) -> dict[str, Any]:
    """One YAML file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def settings(folder: Path = BUNDLE) -> dict[str, Any]:
    """databricks.yml."""
    return read(folder / "databricks.yml")


def included(folder: Path = BUNDLE) -> list[Path]:
    """The files that databricks.yml includes. A pattern that matches none is an error."""
    found: list[Path] = []
    for pattern in settings(folder)["include"]:
        matches = sorted(folder.glob(pattern))
        assert matches, f"include {pattern} matches no file"
        found += matches
    return found


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Later ones win, mapping by mapping."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
            result[key] = merged(result[key], value) if both else value
    return result


class Declared:
    """The bundle in a folder, for one target."""

    def __init__(self, target: str, folder: Path = BUNDLE) -> None:
        whole = merged(settings(folder), *map(read, included(folder)))
        chosen = whole["targets"][target]
        self.target = target
        self.whole = merged(
            whole, {key: chosen[key] for key in ("resources", "workspace", "run_as", "permissions") if key in chosen}
        )
        defaults = {name: v["default"] for name, v in whole["variables"].items() if "default" in v}
        defaults |= {name: f"the id of {v['lookup']}" for name, v in whole["variables"].items() if "lookup" in v}
        undeclared = set(chosen.get("variables", {})) - set(whole["variables"])
        assert not undeclared, f"target {target} sets {undeclared}, which are not declared"
        self.variables = defaults | chosen.get("variables", {})
        self.used: set[str] = set()

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of a kind, resolved."""
        found: dict[str, dict[str, Any]] = self.resolved(self.whole["resources"].get(kind, {}))
        return found

    def resolved(self, value: Any) -> Any:
        """A value with every reference in it replaced. Raises KeyError for one that leads nowhere."""
        if isinstance(value, dict):
            return {key: self.resolved(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if not isinstance(value, str):
            return value
        if whole := _REFERENCE.fullmatch(value):  # may stand for more than a text
            return self._look_up(whole[1])
        return _REFERENCE.sub(lambda match: str(self._look_up(match[1])), value)

    def _look_up(self, name: str) -> Any:
        self.used.add(name)
        first, _, rest = name.partition(".")
        if first == "var":
            name, *path = rest.split(".")
            self.used.add(f"var.{name}")
            value = self.resolved(self.variables[name])
            for part in path:
                value = value[part]
            return value
        if name == "bundle.target":
            return self.target
        if first in ("bundle", "resources"):
            found: Any = self.whole
            for part in name.split("."):
                found = found[part]
            return self.resolved(found)
        return WORKSPACE[name]
