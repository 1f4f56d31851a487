"""Statements of the user's that each session begins with, such as SET ROLE: only those that change no result.

What a SELECT returns and what a position means depend on a session's state (see `session`), and a list of all variables
that matter would never be complete. So it is the other way round: a statement is accepted where it is understood whole,
and sets nothing but roles, a resource group, and variables of which it is known that they decide how fast an answer
comes, or how old it may be at most, never what it says. Values are literals and words: nothing is called or selected.

The statements are executed before the session's own state is set, which would prevail.

Guards: tests/mysql/test_init_commands.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lakehouse_cdc.errors import codes

VARIABLES = (
    "optimizer_[a-z_]+", "eq_range_index_dive_limit", "range_optimizer_max_mem_size", "max_seeks_for_key",
    "sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size", "max_heap_table_size",
    "tmp_table_size", "tmp_memory_table_size", "internal_tmp_mem_storage_engine",
    "wsrep_sync_wait", "wsrep_causal_reads", "group_replication_consistency", "aurora_replica_read_consistency",
    "long_query_time", "sql_log_off", "slow_query_log", "log_slow_[a-z_]+",
    "innodb_lock_wait_timeout",
)  # fmt: skip
_VALUE = r"(?:[+-]?\d+(?:\.\d+)?|'[^'\\]*'|[A-Za-z_]\w*)"
_ONE = rf"(?:(?:SESSION|LOCAL)\s+|@@(?:SESSION\.|LOCAL\.)?)?(?P<name>[A-Za-z_]\w*)\s*:?=\s*{_VALUE}"
_ASSIGNMENT = re.compile(_ONE, re.IGNORECASE | re.ASCII)
_SET = re.compile(rf"SET\s+({_ONE.replace('?P<name>', '?:')}(?:\s*,\s*{_ONE.replace('?P<name>', '?:')})*)", re.I | re.A)
_ACCOUNT = r"(?:[\w.$-]+|'[^'\\]+'|`[^`]+`)(?:@(?:[\w.%$-]+|'[^'\\]+'|`[^`]+`))?"
_ROLE = re.compile(
    rf"SET\s+ROLE\s+(?:DEFAULT|NONE|(?:ALL\s+EXCEPT\s+)?{_ACCOUNT}(?:\s*,\s*{_ACCOUNT})*)", re.IGNORECASE
)
_GROUP = re.compile(r"SET\s+RESOURCE\s+GROUP\s+[A-Za-z_]\w*", re.IGNORECASE | re.ASCII)
_KNOWN = re.compile("|".join(VARIABLES), re.IGNORECASE)


def checked(statements: Sequence[str]) -> tuple[str, ...]:
    """The statements. Raises ConfigError for the first that is none of those that change no result."""
    for statement in statements:
        text = statement.strip()
        if _ROLE.fullmatch(text) or _GROUP.fullmatch(text):
            continue
        assignments = _SET.fullmatch(text)
        if assignments is None:
            raise codes.INIT_COMMAND_INVALID.error(
                "an initial statement is neither SET ROLE, nor SET RESOURCE GROUP, nor a SET of variables of the"
                " session to plain values",
                where=f"source.init_commands: {statement[:80]}",
            )
        for one in _ASSIGNMENT.finditer(assignments[1]):
            if not _KNOWN.fullmatch(one["name"]):
                raise codes.INIT_COMMAND_INVALID.error(
                    f"an initial statement sets {one['name']}, which is none of the variables that change no result",
                    where=f"source.init_commands: {statement[:80]}",
                )
    return tuple(statements)
