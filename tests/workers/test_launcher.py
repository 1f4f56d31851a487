"""The process that plans a source is a copy of one that is there already, and behaves as if Spark had started it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse_cdc.workers import launch_program, launcher

pytestmark = pytest.mark.process

ASKED = """
import os, sys, time
if sys.argv[1:] == ["wait"]:
    print(os.getpid(), flush=True)
    time.sleep(600)
print(sys.stdin.readline().strip(), os.environ["WORD"], len(os.environ) < 5, sys.argv[1:], __name__)
print("lakehouse_cdc.source.spark.stream" in sys.modules, file=sys.stderr)
if len(sys.argv) > 1:
    raise sys.argv[1] == "raise" and ValueError("as asked") or SystemExit(int(sys.argv[1]))
"""


def environment(folder: Path) -> Mapping[str, str]:
    return {"WORD": "sent", "PYTHONPATH": str(folder)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "asked_module.py").write_text(ASKED)
    return tmp_path


@pytest.fixture
def host(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    at = folder / "host"
    process = subprocess.Popen(
        [sys.executable, "-m", "lakehouse_cdc.workers.fork_server", str(at)], stdin=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not at.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    yield process
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(60) == 0
    assert not at.exists()


def ask(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    client = [sys.executable, "-I", "-S", str(launch_program.__file__), str(folder / "host"), sys.executable]
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([*client, "-m", "asked_module", *arguments], env=environment(folder), text=True, **streams)


def answer(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = ask(folder, *arguments)
    out, errors = process.communicate("a line\n", timeout=60)
    return process.returncode, out, errors


def test_a_copy_has_its_askers_files_environment_and_arguments(host: subprocess.Popen[bytes], folder: Path) -> None:
    assert answer(folder) == (0, "a line sent True [] __main__\n", "True\n")
    code, out, errors = answer(folder, "7", "more")
    assert (code, out, errors) == (7, "a line sent True ['7', 'more'] __main__\n", "True\n")
    code, _, errors = answer(folder, "raise")
    assert code == 1
    assert "ValueError: as asked" in errors


def test_a_copy_ends_with_who_asked_for_it(host: subprocess.Popen[bytes], folder: Path) -> None:
    with ask(folder, "wait") as process:
        assert process.stdout is not None
        copy = psutil.Process(int(process.stdout.readline()))
        assert copy.ppid() == host.pid
        process.kill()
        copy.wait(60)


def test_without_a_host_there_is_a_process_as_ever(folder: Path) -> None:
    assert answer(folder) == (0, "a line sent True [] __main__\n", "False\n")


def test_a_host_ends_with_the_process_that_has_started_it(tmp_path: Path) -> None:
    script = f"import os, sys; from lakehouse_cdc.workers import launcher; print(launcher.{launcher.python.__name__}())"
    for end in ("", "; sys.stdout.flush(); os.kill(os.getpid(), 9)"):
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", script + end], capture_output=True, text=True, env=environment)
        program = Path(done.stdout.strip())
        assert program.parent.exists() is bool(end)
        until = time.monotonic() + 60
        while any(str(program.parent / "host") in words(process) for process in psutil.process_iter()):
            assert time.monotonic() < until
            time.sleep(0.05)


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
