"""The pages and files of the documentation that are made from the code: `python -m lakehouse_cdc.cli.reference FOLDER`.

`FOLDER` is `docs/reference`. A test compares what is there with what is made (tests/docs/test_generated.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from lakehouse_cdc.pipeline.config import reference

MADE: Mapping[str, Callable[[], str]] = {
    "configuration.md": reference.markdown,
    "pipeline.schema.json": reference.json_schema,
}


def main(folder: Path) -> None:
    """Write all of them."""
    for name, made in MADE.items():
        (folder / name).write_text(made(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
