"""Files that are written together: all of them or none, and never over one that is there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from lakehouse_cdc.errors import codes


def write(texts: Mapping[Path, str], copies: Mapping[Path, Path] = MappingProxyType({})) -> list[Path]:
    """Write texts by their path, and copies by theirs of other files; all paths.

    Raises ConfigError, with nothing written, if one of them is there, or cannot be written.
    """
    wanted = [*texts, *copies]
    if there := [str(path) for path in wanted if path.exists()]:
        raise codes.DRAFT_PLACE_UNUSABLE.error(
            f"{', '.join(there)} is there already", hint="choose another place, or move it away"
        )
    begun: list[Path] = []
    try:
        for path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            begun.append(path)
            if path in copies:
                shutil.copyfile(copies[path], path)
            else:
                path.write_text(texts[path], encoding="utf-8")
    except OSError as error:
        for path in begun:
            path.unlink(missing_ok=True)
        raise codes.DRAFT_PLACE_UNUSABLE.error(
            f"cannot write {path}: {error.strerror}", hint="choose another place"
        ) from error
    return wanted
