"""Which captured tables a statement may change by way of what it writes, reads or calls.

A statement changes a table that it writes. Beyond that, the server does more for it: a trigger runs when its table is
written, a foreign key's action when the parent is, a view stands for its tables, and a stored routine, wherever it is
called, does what its body says. Each of these is an edge from a use of a name (write, read, call) to the uses that it
leads to. A statement may change table T only if "write T" is reached from what the statement mentions, since each step
of what the server does for it is one of these edges. Edges lead to every name that a body mentions, so more may be
reached than is ever changed, and never less.

Which edges are in force. The catalog has those of the moment at which it is asked. For any other place in the log,
those count that were known at some place before it, and every definition (CREATE, ALTER, RENAME) that the log holds
since that place: what was in force is either one of the former, or was made by one of the latter. Of a definition in
the log all names that it mentions lead to each other. What was dropped in between only continues to count. Where
nothing is known of a place before (the first time that a statement is met, in a backlog), the catalog of now is taken,
and each name that a definition since has touched leads everywhere: see `References.without`.

What the user of the session may not see leads everywhere, too: a view or a routine without its text, a call of what is
no routine that is seen where not all are, the triggers of a database. Nobody can make a trigger on a system table.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_cdc.model.table_name import split
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS
from lakehouse_cdc.sql.dml_names import USES, Names, Node, Use, lower

ANY = "*"  # in place of a name: every one of that database


@dataclass(frozen=True)
class Definition:
    """A statement of the log that changes what names stand for: CREATE, ALTER, DROP or RENAME of other than rows.

    `new`: it makes what was not there. `whole`: databases of which it may have touched names that it does not mention.
    """

    names: Names
    new: bool = False
    whole: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sight:
    """What the user may see: all tables and views, all routines, and the triggers of which databases (ANY: of all)."""

    tables: bool = True
    routines: bool = True
    triggers: frozenset[str] = frozenset((ANY,))

    @property
    def whole(self) -> bool:
        """Whether nothing is hidden."""
        return self.tables and self.routines and ANY in self.triggers

    def hides(self, node: Node, *, known: bool) -> bool:
        """Whether what a use leads to may be hidden; `known`: it has an edge that is seen."""
        use, database, _ = node
        if database in SYSTEM_SCHEMAS:
            return False
        if use == "call":
            return not (self.routines or known)
        if use == "read":
            return not (self.tables or known)
        return not (self.tables and (ANY in self.triggers or database in self.triggers))


@dataclass(frozen=True)
class References:
    """The edges that are known. `opaque` uses may lead to every table; `groups` are definitions from the log."""

    edges: Mapping[Node, Names] = field(default_factory=dict)
    opaque: frozenset[Node] = frozenset()
    groups: tuple[Names, ...] = ()
    sight: Sight = Sight()

    def adding(self, definitions: Iterable[Definition]) -> References:
        """With the definitions that the log holds since the place that these are of."""
        return replace(self, groups=tuple(dict.fromkeys((*self.groups, *(d.names for d in definitions)))))

    def without(self, definitions: Collection[Definition]) -> References:
        """At a place before these definitions, of which nothing is known but what is there after them."""
        old = [definition for definition in definitions if not definition.new]
        opaque = {node for definition in old for node in definition.names.nodes}
        opaque |= {(use, database, ANY) for definition in old for database in definition.whole for use in USES}
        if any(definition.names.words for definition in old):
            opaque |= {(use, ANY, ANY) for use in USES}
        return replace(self.adding(definitions), opaque=self.opaque | opaque)

    def reached(self, names: Names, captured: Collection[str]) -> frozenset[str]:
        """The `captured` tables (`database.table`) that a statement which mentions `names` may change."""
        nodes = self._closure(names)
        if nodes is None:
            return frozenset(captured)
        nodes |= {("write", *name) for name in names.alone}
        return frozenset(name for name in captured if write_of(name) in nodes or names.may_mean(*split(name)))

    def _closure(self, names: Names) -> set[Node] | None:
        """All uses that are reached from those that are mentioned; None: any may be."""
        nodes: set[Node] = set()
        waiting, groups = [names], [*self.groups]
        if names.raw:
            if not self.sight.whole or any(names.may_name(name) or name == ANY for _, _, name in self.opaque):
                return None
            waiting += [reached for node, reached in self.edges.items() if names.may_name(node[2])]
        while waiting:
            more = waiting.pop()
            if more.dynamic or (more.raw and more is not names):
                return None
            for node in more.nodes - nodes:
                known = node in self.edges
                if _among(node, self.opaque) or self.sight.hides(node, known=known):
                    return None
                nodes.add(node)
                waiting += [self.edges[node]] if known else []
            joined = [group for group in groups if group.nodes & nodes or group.meets(nodes) or names.shares(group)]
            groups = [group for group in groups if group not in joined]
            waiting += joined
        return nodes

    def sources(self, table: str) -> Sources:
        """What leads to one table."""
        before: dict[Node, set[Node]] = {}
        for node, names in self.edges.items():
            for other in names.nodes:
                before.setdefault(other, set()).add(node)
        waiting = [write_of(table), *self.opaque]
        waiting += [node for node, names in self.edges.items() if names.dynamic or names.raw]
        waiting += [node for node in before if self.sight.hides(node, known=node in self.edges)]
        nodes: set[Node] = set()
        groups = [*self.groups]
        while waiting:
            node = waiting.pop()
            if node in nodes:
                continue
            nodes.add(node)
            waiting += before.get(node, ())
            joined = [group for group in groups if node in group.nodes or group.meets((node,))]
            groups = [group for group in groups if group not in joined]
            waiting += [other for group in joined for other in group.nodes]
            waiting += [(use, ANY, ANY) for group in joined if group.raw for use in USES]
        dynamic = [other for group in self.groups if group.dynamic for other in group.nodes]
        known = frozenset() if self.sight.whole else frozenset(node for node in self.edges if node[0] != "write")
        return Sources(frozenset((*nodes, *dynamic)), known, self.sight)

    # ------------------------------------------------------------------ as it is stored

    def to_json(self) -> str:
        """Canonical: sorted, no spaces."""
        data = {
            "edges": sorted([list(node), _plain(names)] for node, names in self.edges.items()),
            "opaque": sorted(map(list, self.opaque)),
            "groups": [_plain(names) for names in self.groups],
            "sight": [self.sight.tables, self.sight.routines, sorted(self.sight.triggers)],
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> References:
        """The inverse of `to_json`."""
        data = json.loads(text)
        tables, routines, triggers = data["sight"]
        return cls(
            {_node(node): _names(names) for node, names in data["edges"]},
            frozenset(map(_node, data["opaque"])),
            tuple(map(_names, data["groups"])),
            Sight(tables, routines, frozenset(triggers)),
        )


@dataclass(frozen=True)
class Sources:
    """The uses that lead to one table, at a place in the log; `known` are uses of which it is seen where they lead.

    What a task has in place of all references: whether statements that are after that place may have changed the
    table. Where a definition among them touches one of the uses, any text may have.
    """

    nodes: frozenset[Node]
    known: frozenset[Node] = frozenset()
    sight: Sight = Sight()

    def meet(self, texts: Collection[Names], definitions: Iterable[Definition]) -> bool:
        """Whether one of the texts may change the table. With more texts and definitions it is never less true."""
        if any(map(self._holds, texts)):
            return True
        return bool(texts) and any(d.names.dynamic or self._holds(d.names) for d in definitions)

    def _holds(self, names: Names) -> bool:
        if names.raw and (not self.sight.whole or names.meets(self.nodes) or ANY in {node[2] for node in self.nodes}):
            return True
        if any(("write", *name) in self.nodes for name in names.alone):
            return True
        return any(_among(n, self.nodes) or self.sight.hides(n, known=n in self.known) for n in names.nodes)


def write_of(table: str) -> Node:
    """The use that changes a table, `database.table`."""
    database, name = split(table)
    return "write", lower(database), lower(name)


def _among(node: Node, nodes: Collection[Node]) -> bool:
    use, database, _ = node
    return node in nodes or (use, database, ANY) in nodes or (use, ANY, ANY) in nodes


def _plain(names: Names) -> list[Any]:
    return [sorted(map(list, names.nodes)), sorted(names.words), names.unreadable, names.dynamic]


def _names(data: list[Any]) -> Names:
    nodes, words, unreadable, dynamic = data
    return Names(frozenset(map(_node, nodes)), frozenset(words), unreadable, dynamic)


def _node(data: list[str]) -> Node:
    use: Use = "write" if data[0] == "write" else "read" if data[0] == "read" else "call"
    return use, data[1], data[2]
