"""To delete a folder so that a crash at any moment leaves either all of it or nothing under its name.

It is renamed first, to a name that nobody reads, beside itself; what a crash leaves there goes with the next deletion
in the same place.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

_TRASH = ".deleted-"


def throw_away(folder: str | os.PathLike[str]) -> None:
    """Delete a folder, or a file, and what earlier calls did not come to delete beside it; one that is gone is fine."""
    path = Path(folder)
    if path.exists():
        path.rename(path.with_name(f"{_TRASH}{uuid.uuid4().hex}-{path.name}"))
    empty_trash(path.parent)


def empty_trash(folder: str | os.PathLike[str]) -> None:
    """Delete what was renamed in `folder`, and not deleted."""
    for left in Path(folder).glob(f"{_TRASH}*"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
