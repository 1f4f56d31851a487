"""A checkpoint as Spark writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.lake.checkpoint import Checkpoint


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_it_says_who_wrote_it_and_what_is_complete(tmp_path: Path) -> None:
    place = Checkpoint(f"file:{tmp_path}")
    assert not place.exists
    assert place.last_commit() is None
    written(tmp_path, "metadata", '{"id":"abc"}')
    for batch in (2, 9, 10):
        written(tmp_path, f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"pos":{batch}}}')
        written(tmp_path, f"commits/{batch}", "v1\n{}")
    written(tmp_path, "offsets/11", 'v1\n{}\n{"pos":11}')
    for other in ("commits/.11.crc", "commits/12.tmp", "commits/12.compact"):
        written(tmp_path, other, "")
    assert (place.exists, place.query_id()) == (True, "abc")
    assert (place.last_commit(), place.last_offset()) == (10, 11)
    assert place.offset(9) == {"pos": 9}


def test_a_damaged_or_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    place = Checkpoint(str(tmp_path))
    with pytest.raises(DefiniteError, match="no metadata"):
        place.query_id()
    with pytest.raises(DefiniteError, match="no offsets/0"):
        place.offset(0)
    written(tmp_path, "offsets/0", "v1\n{}\n{}\n{}")  # two sources
    written(tmp_path, "offsets/1", "v2\n{}\n{}")
    for batch in (0, 1):
        with pytest.raises(DefiniteError, match="not of a query with one source"):
            place.offset(batch)


def test_the_plan_of_a_batch_can_be_removed(tmp_path: Path) -> None:
    place = Checkpoint(str(tmp_path))
    assert place.planned is None
    place.remove_plan()
    for name in ("metadata", "offsets/6", "offsets/7", "offsets/.7.crc", "commits/6"):
        written(tmp_path, name, "v1\n{}\n{}")
    assert place.planned == 7
    place.remove_plan()
    assert place.planned is None
    place.remove_plan()  # a complete one stays
    assert (place.last_offset(), place.last_commit()) == (6, 6)
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["6"]
