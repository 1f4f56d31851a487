"""Runs of tests on a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.mutation import ROOT, Mutation

_COPIED = ("lakehouse_cdc", "tests", "bundles", "docs", "bench", "notebooks", "pyproject.toml")
_PASSED, _FAILED = 0, 1  # exit codes of pytest; others mean that it could not run the tests
_COMPILES = "tests/source/test_exact.py::test_every_offset_is_exact"  # the kernels: no other test is to wait for that
_SECONDS = "600"  # of one test: without its guard it may wait for what never happens


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout, in which all guards are taken out in turn: kernels are compiled once for its path."""
    with tempfile.TemporaryDirectory() as folder:
        yield _copy(Path(folder))


def unmutated(guards: Sequence[Mutation], copy: Path) -> bool:
    """Whether all their tests pass as the code is."""
    tests = list(dict.fromkeys(test for guard in guards for test in guard.tests))
    sys.stdout.write(f"{len(tests)} tests with all guards in place\n")
    sys.stdout.flush()
    for chosen in ([_COMPILES], tests):
        done = _pytest(copy, chosen)
        if done.returncode != _PASSED:
            sys.stdout.write(done.stdout)
            return False
    return True


def survivors(guards: Sequence[Mutation], copy: Path) -> list[str]:
    """Those without which some test of theirs passes; says of each what became of it."""
    left = []
    for guard in guards:
        began = time.monotonic()
        caught = all(_fails_without(guard, test, copy) for test in guard.tests)
        if not caught:
            left.append(guard.name)
        sys.stdout.write(f"{'caught' if caught else 'SURVIVED':9} {guard.name} ({time.monotonic() - began:.0f} s)\n")
        sys.stdout.flush()
    return left


def _fails_without(guard: Mutation, test: str, copy: Path) -> bool:
    """Whether a test fails where the guard is taken out. Raises RuntimeError where it could not be run there."""
    path = copy / guard.file
    code, was = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(guard.applied(code), encoding="utf-8")
    try:
        done = _pytest(copy, [test])
    finally:
        path.write_text(code, encoding="utf-8")
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    if done.returncode not in (_PASSED, _FAILED):
        raise RuntimeError(f"{test} could not be run without {guard.name}:\n{done.stdout}{done.stderr}")
    return done.returncode == _FAILED


def _copy(folder: Path) -> Path:
    """A copy of the checkout without what was compiled, so that nothing stale is taken for the changed code."""
    for name in _COPIED:
        if (source := ROOT / name).is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def _pytest(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy, up to the first that fails. All processes that they start import the copy, too."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "--timeout", _SECONDS, "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*command, *tests], cwd=folder, env=environment, capture_output=True, text=True, check=False)
