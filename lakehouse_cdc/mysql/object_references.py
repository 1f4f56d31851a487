"""What leads from one name to others on a server, as INFORMATION_SCHEMA has it now: see `sql.references`.

Views, triggers, stored routines and foreign keys are read whole, in four queries. They are no one snapshot, so the
caller must know from the log that nothing was defined meanwhile. What a user may see of each, by the manuals of
MySQL 5.7 and 8.4 and MariaDB ("The INFORMATION_SCHEMA ... Table", "Privileges Provided"):

* tables and views: those on which there is any right; a view's text with SHOW VIEW alone, else it is empty;
* triggers: those of tables on which there is the right TRIGGER, no others, and without a word;
* routines: those on which there is any right; a text with SHOW_ROUTINE, or SELECT on all, else it is NULL.

So what is hidden is known from the grants: those that SHOW GRANTS lists, no more (a role that is not listed counts as
none). An edge leads to all names of a text, whatever they stand for there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS
from lakehouse_cdc.sql.dml_names import Names, Node, body_names, lower
from lakehouse_cdc.sql.references import ANY, References, Sight

_GRANT = re.compile(r"(GRANT|REVOKE) (.+) ON (\*|`(?:[^`]|``)*`|\w+)\.\* (?:TO|FROM) ", re.DOTALL)
_VIEWS = "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION FROM INFORMATION_SCHEMA.VIEWS WHERE TABLE_SCHEMA NOT IN ({})"
_TRIGGERS = (
    "SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, ACTION_STATEMENT, SQL_MODE FROM INFORMATION_SCHEMA.TRIGGERS"
    " WHERE TRIGGER_SCHEMA NOT IN ({})"
)
_ROUTINES = (
    "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_DEFINITION, SQL_MODE, EXTERNAL_LANGUAGE"
    " FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ({})"
)
_FOREIGN_KEYS = (
    "SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONSTRAINT_SCHEMA, TABLE_NAME"
    " FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA NOT IN ({})"
    " AND (DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') OR UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION'))"
)
_OTHER_QUOTES = ("ANSI_QUOTES", "NO_BACKSLASH_ESCAPES")


@dataclass(frozen=True)
class Grants:
    """The rights on everything, and those on single databases beside them, in upper case."""

    everywhere: frozenset[str]
    by_database: dict[str, frozenset[str]]
    revoked: frozenset[str]

    def has(self, *rights: str) -> bool:
        """Whether there is one of these rights everywhere."""
        held = set(rights) if "ALL PRIVILEGES" in self.everywhere else self.everywhere & set(rights)
        return bool(held - self.revoked) and "ALL PRIVILEGES" not in self.revoked

    def databases(self, right: str) -> frozenset[str]:
        """The databases of which there is this right; ANY for all."""
        names = {name for name, rights in self.by_database.items() if rights & {right, "ALL PRIVILEGES"}}
        return frozenset((*names, *((ANY,) if self.has(right) else ())))


def grants(session: Session) -> Grants:
    """What SHOW GRANTS says of this user."""
    everywhere: set[str] = set()
    revoked: set[str] = set()
    by_database: dict[str, frozenset[str]] = {}
    for (line,) in session.query("SHOW GRANTS"):
        match = _GRANT.match(str(line))
        if match is None:
            continue
        rights = frozenset(right.strip().upper() for right in re.sub(r"\([^)]*\)", "", match[2]).split(","))
        if match[1] == "REVOKE":  # partial: of one database
            revoked |= rights
        elif match[3] == "*":
            everywhere |= rights
        else:
            name = match[3].strip("`").replace("``", "`").replace("\\_", "_").replace("\\%", "%")
            by_database[lower(name)] = rights | by_database.get(lower(name), frozenset())
    return Grants(frozenset(everywhere), by_database, frozenset(revoked))


def sight(session: Session) -> Sight:
    """What this user may see of what is defined."""
    granted = grants(session)
    tables = granted.has("SELECT", "TRIGGER", "SHOW VIEW")
    return Sight(tables, granted.has("SELECT", "SHOW_ROUTINE"), granted.databases("TRIGGER"))


def references(session: Session) -> References:
    """All that leads from one name to others, with what is hidden from this user."""
    edges: dict[Node, Names] = {}
    opaque: set[Node] = set()
    for database, view, text in _asked(session, _VIEWS):
        reads, writes = _node("read", database, view), _node("write", database, view)
        if not text:
            opaque |= {reads, writes}
            continue
        names = body_names(str(text), str(database))
        _add(edges, reads, names)
        written: set[Node] = {("write", *node[1:]) for node in names.nodes if node[0] == "read"}
        _add(edges, writes, Names(names.nodes | written, dynamic=names.dynamic or names.raw))
    for database, table, text, mode in _asked(session, _TRIGGERS):
        _add(edges, _node("write", database, table), _body(text, database, mode))
    for database, routine, text, mode, language in _asked(session, _ROUTINES):
        if text is None or str(language or "SQL").upper() != "SQL":
            opaque.add(_node("call", database, routine))
        else:
            _add(edges, _node("call", database, routine), _body(text, database, mode))
    for database, parent, other, child in _asked(session, _FOREIGN_KEYS):
        _add(edges, _node("write", database, parent), Names(frozenset((_node("write", other, child),))))
    return References(edges, frozenset(opaque), sight=sight(session))


def _asked(session: Session, sql: str) -> Iterable[tuple[Any, ...]]:
    return session.query(sql.format(", ".join(["%s"] * len(SYSTEM_SCHEMAS))), SYSTEM_SCHEMAS)


def _body(text: Any, database: Any, mode: Any) -> Names:
    plain = not any(other in str(mode) for other in _OTHER_QUOTES)
    names = body_names(str(text), str(database), plain_quotes=plain)
    return Names(names.nodes, dynamic=names.dynamic or names.raw)


def _add(edges: dict[Node, Names], node: Node, names: Names) -> None:
    """A table may have several triggers, and a name may be that of a function and of a procedure."""
    known = edges.get(node, Names())
    edges[node] = Names(known.nodes | names.nodes, dynamic=known.dynamic or names.dynamic or names.raw)


def _node(use: str, database: Any, name: Any) -> Node:
    place = lower(str(database)), lower(str(name))
    return ("write", *place) if use == "write" else ("read", *place) if use == "read" else ("call", *place)
