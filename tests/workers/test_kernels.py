"""Kernels that are not compiled yet are compiled by one process at a time; those that are there wait for nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakehouse_cdc.images import warm
from lakehouse_cdc.workers import kernels


def test_one_at_a_time_until_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "numba"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    first, others, most = threading.Event(), 0, 0

    def compiling() -> None:
        nonlocal others, most
        others += 1
        most = max(most, others)
        first.wait(0.2)
        others -= 1

    monkeypatch.setattr(warm, "warm_up", compiling)
    monkeypatch.setattr(kernels, "usable", lambda: None)
    assert kernels.take_long(cache)
    threads = [threading.Thread(target=kernels.load) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert not kernels.take_long(cache)


def test_without_a_cache_they_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[None] = []
    monkeypatch.setattr(warm, "warm_up", lambda: called.append(None))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    kernels.load()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/nothing/numba")
    kernels.load()
    assert len(called) == 2
