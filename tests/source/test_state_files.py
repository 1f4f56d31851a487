"""Files beside the checkpoint are written whole, and an attempt that fails leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.lake.files.folder import write_whole


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "state"
    taken.mkdir()  # no file can take the place of a folder
    with pytest.raises(OSError, match="state"):
        write_whole(taken, "text")
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    write_whole(tmp_path / "other", "text")
    assert (tmp_path / "other").read_text() == "text"
