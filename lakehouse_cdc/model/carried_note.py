"""A note that a statement carries in its own text, where no setting of a session can say it.

A writer has options for what its commit says; MERGE and ALTER have not, but for settings that a session may not have
(see `lake.sessions`). Delta's log keeps what a statement was given: the predicates of a MERGE, the properties of an
ALTER (`operationParameters`). So the note is put into one of these, in letters that no SQL escapes, and is in the
commit itself, neither before it nor after.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

_MARK = "lakehouse_cdc.note:"
_CARRIED = re.compile(re.escape(_MARK) + r"([\w=-]+)")


def carried(text: str, application: str = "") -> str:
    """The text of a note, and of the application whose commit it is ("" for none), as a statement carries it."""
    data = json.dumps([application, text], ensure_ascii=False)
    return _MARK + urlsafe_b64encode(data.encode()).decode("ascii")


def carried_by(parameters: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Application and text that the statement of a commit carried, None for none; `parameters` are the commit's."""
    for value in (parameters or {}).values():
        if (mark := _CARRIED.search(str(value))) is not None:
            application, text = json.loads(urlsafe_b64decode(mark[1]))
            return application, text
    return None
