"""How what an extra brings is installed, by a command that names packages of others alone.

No index has this package: under its name there, somebody else's could be. So a hint never says to install that name, it
lists what the installed package itself declares.
"""

from __future__ import annotations

import re
import shlex
from importlib.metadata import PackageNotFoundError, requires


def installing(extra: str) -> str:
    """The command that installs an extra's requirements."""
    try:
        declared = requires("lakehouse-cdc") or []
    except PackageNotFoundError:  # the code is there without its metadata
        declared = []
    of_extra = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    wanted = [one.partition(";")[0].strip() for one in declared if of_extra.search(one)]
    if not wanted:
        return f"install what the extra {extra} of pyproject.toml lists"
    return f"pip install {shlex.join(wanted)}"
