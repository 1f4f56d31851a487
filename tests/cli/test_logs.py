"""What cannot be written into the pipeline's log does not end what it is about, and is not on the console."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_cdc.cli.logs import log_to

_log = logging.getLogger("lakehouse_cdc.tests")


@pytest.fixture(autouse=True)
def no_log_afterwards() -> Iterator[None]:
    before = logging.getLogger().handlers[:]
    yield
    logging.getLogger().handlers[:] = before


def test_a_log_that_cannot_be_opened(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    log_to(tmp_path / "file" / "run.log")
    _log.warning("no folder can be made there")
    (tmp_path / "file").unlink()
    _log.warning("now it can")
    assert [line.partition(": ")[2] for line in (tmp_path / "file" / "run.log").read_text().splitlines()] == [
        "now it can"
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no file here is always full")
def test_a_log_on_a_full_disk(capfd: pytest.CaptureFixture[str]) -> None:
    log_to(Path("/dev/full"))
    _log.warning("there is no room for it")
    assert capfd.readouterr().err == ""
