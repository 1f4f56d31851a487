"""Stored offsets: each is read and written again byte for byte, and means what it meant when it was stored.

`offsets/` holds offsets recorded from streams on real servers, each with what it means of its tables: whether the pass
of a table has emitted anything (`begun`), whether all of it has been read (`complete`), and the key below which its
events pass (`bound`: `null` is all of them, `[]` none).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.model.offset import Offset
from tests.support.offset_json import offsets

STORED = sorted((Path(__file__).parent / "offsets").glob("*.json"))


def read_and_written(text: str) -> str:
    """What a stored offset becomes when nothing happens."""
    found = Offset.from_json(json.loads(text))
    assert found is not None
    return json.dumps(found.to_json())


@given(offsets())
def test_an_offset_is_written_as_it_was_read(data: dict[str, Any]) -> None:
    assert read_and_written(json.dumps(data)) == json.dumps(data)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_offset_is_kept_byte_for_byte(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    assert read_and_written(json.dumps(case["offset"])) == json.dumps(case["offset"])


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_offset_means_what_it_meant(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    offset = Offset.from_json(case["offset"])
    assert offset is not None
    means = {
        name: {"begun": state.begun, "complete": state.complete, "bound": state.bound}
        for name, state in offset.tables.items()
    }
    assert means == case["means"]["tables"]
    assert {name: str(since) for name, since in offset.reading.items()} == case["means"]["reading"]
    assert offset.quarantined == case["means"]["quarantined"]


def test_there_are_stored_offsets() -> None:
    assert len(STORED) >= 6


def test_another_version_is_refused() -> None:
    with pytest.raises(DefiniteError, match="version 3"):
        Offset.from_json({"version": 3})
