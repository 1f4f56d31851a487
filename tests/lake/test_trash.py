"""Folders are deleted as a whole, whatever interrupts it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakehouse_cdc.lake.cleanup.trash import empty_trash, throw_away


def test_a_folder_a_file_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "folder" / "inner" / "a").write_text("a")
    (tmp_path / "file").write_text("b")
    (tmp_path / "kept").write_text("c")
    for name in ("folder", "file", "none"):
        throw_away(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_an_interruption_leaves_is_under_no_name_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("a")

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            throw_away(tmp_path / "one")
    assert not (tmp_path / "one").exists()
    assert len(list(tmp_path.iterdir())) == 2
    throw_away(tmp_path / "two")
    assert list(tmp_path.iterdir()) == []
    empty_trash(tmp_path / "none")
