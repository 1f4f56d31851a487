"""Flink's own readers of Debezium's, Canal's and Maxwell's JSON: one process of Java, which compiles its source."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.messages.change import Message
from lakehouse_cdc.messages.formats import FormatName
from lakehouse_cdc.runtime.jars import fetch, listed

_FOLDER = Path(__file__).parent
VERSION = "2.2.0"


@dataclass(frozen=True)
class FlinkRow:
    """One row that Flink makes of a message: its kind (+I, -U, +U, -D), and values as `ReadMessages` prints them."""

    kind: str
    values: list[Any]


class Refused(Exception):
    """Flink refuses a message; what it says."""


class Flink:
    """The process. `use` says how the next messages are read."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._used: tuple[FormatName, bool, str] | None = None

    def use(self, format: FormatName, row_type: str, *, schemas: bool = False) -> None:
        """`row_type` is a ROW of Flink's SQL; `schemas`: messages have theirs (`schema-include`)."""
        if self._used != (format, schemas, row_type):
            self._used = format, schemas, row_type
            assert self._asked(f"{format}\t{str(schemas).lower()}\t{row_type}") == ""

    def read(self, message: Message) -> list[FlinkRow]:
        """The rows that Flink makes of it. Raises Refused."""
        answer = json.loads(self._asked("" if message.value is None else base64.b64encode(message.value).decode()))
        if isinstance(answer, str):
            raise Refused(answer)
        return [FlinkRow(one["kind"], one["row"]) for one in answer]

    def _asked(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "Flink's process has ended"
        return answer.rstrip("\n")


@contextmanager
def running() -> Iterator[Flink]:
    """The process, which ends with the block. Skips the test where there is no compiler of Java."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("there is no compiler of Java")
    java = Path(compiler).resolve().with_name("java")
    path = os.pathsep.join(map(str, fetch(listed(_FOLDER / "jars.txt"), f"Flink {VERSION}'s readers (11 MB)")))
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    with subprocess.Popen(
        [str(java), *options, "-cp", path, str(_FOLDER / "ReadMessages.java")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
    ) as process:  # fmt: skip
        try:
            yield Flink(process)
        finally:
            process.kill()
