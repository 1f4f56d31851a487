"""docs/ARCHITECTURE.md: each name of the package in it exists, and its layers are those that are checked."""

from __future__ import annotations

import pkgutil
import re

import pytest

from tests.support.documents import ROOT, prose

PAGE = ROOT / "docs" / "ARCHITECTURE.md"
# in backticks, and not a name of the package
OTHERS = {"lakehouse_cdc.", "lint-imports", "pyproject.toml", "r", "s", "t"}
NAMES = sorted({*re.findall(r"`([^`\n]+)`", prose(PAGE))} - OTHERS)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_exists(name: str) -> None:
    assert pkgutil.resolve_name(f"lakehouse_cdc.{name}") is not None


def test_the_layers_are_those_that_are_checked() -> None:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[[tool.importlinter.contracts]]")[2]
    checked = [set(re.findall(r"lakehouse_cdc\.(\w+)", line)) for line in contract.partition("]\n")[0].splitlines()]
    table = prose(PAGE).partition("## Layers")[2].partition("## Packages")[0]
    shown = [set(re.findall(r"`(\w+)`", line)) for line in table.splitlines() if line.startswith("|")]
    assert [layer for layer in shown if layer] == [layer for layer in checked if layer]


def test_each_package_is_on_the_map() -> None:
    table = prose(PAGE).partition("## Packages")[2].partition("##")[0]
    packages = {path.parent.name for path in (ROOT / "lakehouse_cdc").glob("*/__init__.py")}
    assert {*re.findall(r"`(\w+)`", table)} == packages | {"declarative"}
