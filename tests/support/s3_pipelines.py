"""Pipelines into a bucket, and what is shown of them and kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from lakehouse_cdc.lake.files.port import Files

ACCESS, SECRET = "an-access-key", "a-key-that-nobody-sees"


def bucket_of(file: Path) -> str:
    return re.search(r"s3://([^/]+)/", file.read_text())[1]  # type: ignore[index]


def every_file(files: Files) -> list[str]:
    """The contents of a pipeline's files beside its tables."""
    places = [files, *map(files.within, ("bronze", "silver", "schemas", "schemas/signals"))]
    places += [place.within(log) for place in places[1:3] for log in ("offsets", "commits")]
    return [str(place.read(name)) for place in places for name in place.names()]


def of_rows(report: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Of a run, by table: how many rows of each op."""
    return {name: {op: n for op, n in of.items() if op in "rcud"} for name, of in report["tables"].items()}


def shown(folder: Path) -> str:
    """All that is in files below a folder."""
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
