"""Rows of one file, and those in which a column is NULL: by statistics where these say it, else by the file itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_cdc.lake.readers.live_files import LiveFile

pytestmark = pytest.mark.unit


@pytest.fixture
def place(tmp_path: Path) -> str:
    moments = pa.struct([("seq", pa.int64()), ("at", pa.int64())])
    rows = {
        "a": pa.array([1, None, None]),
        "m": pa.array([{"seq": 1, "at": 2}, None, {"seq": None, "at": 1}], moments),
        "l": pa.array([[1], None, []]),
        "p": pa.array([None, [("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(rows), tmp_path / "file.parquet")
    return str(tmp_path / "file.parquet")


@pytest.mark.parametrize(
    ("path", "nulls"),
    [(("a",), 2), (("m",), 1), (("m", "seq"), 2), (("l",), 1), (("p",), 1), (("later",), 3), (("later", "seq"), 3)],
    ids=lambda one: str(one),
)
def test_without_statistics_the_file_is_read(place: str, path: tuple[str, ...], nulls: int) -> None:
    file = LiveFile(place, None, {}, {}, None)
    assert file.count(None) == 3
    assert file.count(path) == nulls


def test_with_statistics_it_is_not(tmp_path: Path) -> None:
    file = LiveFile(str(tmp_path / "none"), 7, {}, {"a": 2, "m": {"seq": 3}}, None)
    assert (file.count(None), file.count(("a",)), file.count(("m", "seq"))) == (7, 2, 3)
    with pytest.raises(OSError, match="none"):
        file.count(("m",))  # what is known of a field is not known of the struct
