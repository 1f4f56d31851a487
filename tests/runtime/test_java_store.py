"""The jar that is shipped is what its sources give."""

from __future__ import annotations

import shutil
import subprocess
import zipfile

import pytest

from lakehouse_cdc.runtime.java_store import JAR
from lakehouse_cdc.runtime.java_store.build import DIGEST, built, digest


@pytest.mark.unit
def test_it_is_of_these_sources() -> None:
    """Else: uv run python -m lakehouse_cdc.runtime.java_store.build"""
    with zipfile.ZipFile(JAR) as jar:
        assert jar.read(DIGEST).decode() == digest()


@pytest.mark.process
def test_it_is_what_its_sources_give() -> None:
    """By the compiler that made it: others may write the same classes otherwise."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("there is no compiler of Java")
    version = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True).stdout
    if not version.startswith("javac 17."):
        pytest.skip(f"the jar was made by javac 17, and this is {version.strip()}")
    assert built(compiler) == JAR.read_bytes()
