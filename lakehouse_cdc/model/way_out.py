"""What a user can do about an error, as hints and reasons print it: commands are as a shell takes them.

Guards: tests/model/test_way_out.py; and tests that have the decorator `remedy` take commands out of hints, and follow
them.
"""

from __future__ import annotations

import shlex
from typing import Any

from lakehouse_cdc.errors import CdcError, Code
from lakehouse_cdc.model.table_name import pattern_of


def read_again(table: str) -> str:
    """The command that has the table `database.table` read again, also where it is quarantined."""
    return f"lakehouse-cdc signal -c pipeline.yml snapshot {shlex.quote(pattern_of(table))}"


def pass_by(position: object) -> str:
    """The command that has the stream pass the statement which ends at a position of the binlog."""
    return f"lakehouse-cdc signal -c pipeline.yml pass {shlex.quote(str(position))}"


def reason(code: Code[Any], what: str, hint: str, table: str) -> str:
    """Why a table is quarantined: an error's code, what happened, what to do, and how to take the table up again."""
    return f"{code.label}: {what}; {hint.rstrip('.')}; then: {read_again(table)}"


def silver_reason(error: CdcError) -> str:
    """Why silver alone does not have a table, or is not continued with it: no command is needed after what to do."""
    return f"{error.code.label}: {error.what}; {error.hint}"
