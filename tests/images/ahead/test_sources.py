"""A library is never used for sources that it was not made of: the digest covers all that kernels are made of."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.images.ahead import library
from lakehouse_cdc.images.ahead.library import CODE, CONTENTS, usable
from lakehouse_cdc.images.build import kernels
from lakehouse_cdc.images.compiled import Part
from lakehouse_cdc.images.digest import SOURCES

STALE = "the library of kernels is of other sources: run `uv run python -m lakehouse_cdc.images.build`"

CHECKED: Any = usable.__wrapped__  # without what it remembers


@pytest.fixture(autouse=True)
def library_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)


def parts() -> list[Part]:
    kernels()  # imports all modules that have any
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("lakehouse_cdc.images.")]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Part)]


def imported(module: Any) -> dict[str, str]:
    """The module of each name that a module imports from this project."""
    tree = ast.parse(Path(module.__file__).read_text())
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lakehouse_cdc.")
        for alias in node.names
    }


def test_every_name_in_a_kernel_is_of_a_source_of_the_digest() -> None:
    assert len(parts()) > 100
    for part in parts():
        module = sys.modules[part.py_func.__module__]
        names = imported(module)
        code = part.py_func.__code__
        for origin in {names[name] for name in code.co_names if name in names}:
            file = sys.modules[origin].__file__
            assert file is not None
            assert Path(file) in SOURCES, f"{part.py_func.__name__} has a name of {origin}"


def test_the_library_is_of_these_sources() -> None:
    contents = CHECKED()
    assert contents is not None, STALE
    assert set(contents["kernels"]) == set(kernels()), STALE


def test_a_library_of_other_sources_is_not_used(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(library, "DIGEST", "another")
    assert CHECKED() is None


def test_a_library_whose_files_are_of_two_builds_is_not_used(tmp_path: Path, monkeypatch: Any) -> None:
    other = tmp_path / CODE.name
    other.write_bytes(CODE.read_bytes() + b"\0")
    monkeypatch.setattr(library, "CODE", other)
    assert CHECKED() is None


def test_a_library_that_is_not_there_is_not_used(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(library, "CONTENTS", tmp_path / CONTENTS.name)
    assert CHECKED() is None


def test_an_llvm_older_than_the_librarys_does_not_read_it(monkeypatch: Any) -> None:
    import llvmlite.binding as llvm

    major = CHECKED()["llvm"]
    monkeypatch.setattr(llvm, "llvm_version_info", (major - 1, 9, 9))
    assert CHECKED() is None
    monkeypatch.setattr(llvm, "llvm_version_info", (major + 1, 0, 0))
    assert CHECKED() is not None


def test_another_kind_of_processor_has_none(monkeypatch: Any) -> None:
    monkeypatch.setattr("platform.machine", lambda: "s390x")
    assert CHECKED() is None


def test_numba_can_be_asked_for(monkeypatch: Any) -> None:
    monkeypatch.setenv(library.SWITCH, "numba")
    assert CHECKED() is None
