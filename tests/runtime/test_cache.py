"""The cache: complete or absent, whatever fails or races."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.runtime.cache import ENVIRONMENT, cache_directory, locked, publish
from tests.remedies import remedy


def test_the_environment_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "a" / "b"))
    assert cache_directory() == tmp_path / "a" / "b"
    assert cache_directory().is_dir()
    monkeypatch.delenv(ENVIRONMENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "lakehouse-cdc"


@remedy(codes.CACHE_UNUSABLE)
def test_an_unusable_cache_is_definite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "file" / "cache"))
    with pytest.raises(DefiniteError) as refused:
        cache_directory()
    assert refused.value.code is codes.CACHE_UNUSABLE
    variable = re.fullmatch(r"set the environment variable (\w+) to a directory.*", refused.value.hint)
    assert variable, refused.value.hint
    monkeypatch.setenv(variable[1], str(tmp_path / "another"))
    assert cache_directory() == tmp_path / "another"


def test_what_fails_half_way_is_not_published(tmp_path: Path) -> None:
    def build(beside: Path) -> None:
        beside.mkdir()
        (beside / "half").write_text("")
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        publish(tmp_path / "thing", build)
    assert list(tmp_path.iterdir()) == []


def test_the_first_of_two_builders_wins(tmp_path: Path) -> None:
    def build(beside: Path) -> None:
        beside.mkdir()
        (beside / "who").write_text("second")
        (tmp_path / "thing").mkdir()  # another process publishes meanwhile
        (tmp_path / "thing" / "who").write_text("first")

    publish(tmp_path / "thing", build)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thing"]
    assert (tmp_path / "thing" / "who").read_text() == "first"
    publish(tmp_path / "thing", lambda beside: pytest.fail("it exists"))


def test_a_lock_admits_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with locked(tmp_path / "lock"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.02)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
