"""Prints the page of mistakes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.mistakes.mistake import opened
from tests.mistakes.page import MISTAKES, markdown

with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-mistakes-") as folder, opened(Path(folder)) as world:
    print(markdown({mistake.what: world.make(mistake) for mistake in MISTAKES}), end="")
