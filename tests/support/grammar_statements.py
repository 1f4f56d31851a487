"""Random statements from the grammar's own data, about tables that are there, with a count of what was made.

Of alternatives, those that were made least often are preferred, so that all of them occur soon. Terminals are filled in
with names of the tables below where the production says which kind of name it is.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator

from lakehouse_cdc.sql.grammar.notation import (
    Choice,
    Expression,
    Mark,
    Only,
    Reference,
    Repeated,
    Sequence,
    Word,
    grammar,
    shown,
)
from lakehouse_cdc.testing import Version

NAMES: dict[Version, str] = {
    "mysql-5.7": "5.7", "mysql-8.0": "8.0", "mysql-9": "9", "mariadb-10.11": "10.11", "mariadb-11": "11.8",
}  # fmt: skip
Point = tuple[str, str]  # a production, and one of its alternatives or of the parts that may be left out

COLUMNS = ("a", "b", "c", "d", "e")
TABLE = """CREATE TABLE t (
  id INT NOT NULL, a INT, b VARCHAR(20), c DECIMAL(9,2) NOT NULL DEFAULT 1.5, d DATETIME(3), e CHAR(9),
  PRIMARY KEY (id), KEY i (a), KEY j (b){check}
) DEFAULT CHARACTER SET latin1"""
CHECK = ", CONSTRAINT ch CHECK (id < 100000)"
SETUP = {
    "parent": "CREATE TABLE parent (id INT NOT NULL PRIMARY KEY)",
    "t": TABLE,
    "k": "CREATE TABLE k (id INT PRIMARY KEY, a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES parent (id))",
    "u": "CREATE TABLE u (id INT NOT NULL PRIMARY KEY, a INT) CHARACTER SET latin1",
    "p": "CREATE TABLE p (id INT NOT NULL PRIMARY KEY, a INT) CHARACTER SET latin1 PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (100), PARTITION p2 VALUES LESS THAN (200))",
    "h": "CREATE TABLE h (id INT NOT NULL PRIMARY KEY, a INT) CHARACTER SET latin1 PARTITION BY HASH (id) PARTITIONS 3",
}
ROWS = {
    "parent": "INSERT INTO parent VALUES (1), (2)",
    "t": "INSERT INTO t VALUES (1, 1, 'x', 1.25, '2020-01-02 03:04:05.678', 'q'), (2, NULL, NULL, -3, NULL, NULL),"
    " (3, 2, 'Y', 0, '2021-01-01', '')",
    "k": "INSERT INTO k VALUES (1, 1)",
    "u": "INSERT INTO u VALUES (1, 1)",
    "p": "INSERT INTO p VALUES (1, 1), (5, 5), (150, 7)",
    "h": "INSERT INTO h VALUES (1, 1), (5, 5)",
}
RESTS = {
    "GRANT": "SELECT ON *.* TO somebody@localhost", "REVOKE": "SELECT ON *.* FROM somebody@localhost",
    "FLUSH": "TABLES", "REPAIR TABLE": "u", "OPTIMIZE": "TABLE t", "SET PASSWORD": "FOR somebody@localhost = ''",
    "RENAME USER": "somebody@localhost TO another@localhost",
    "CREATE VIEW": "v AS SELECT 1 AS one", "CREATE FUNCTION": "f() RETURNS INT DETERMINISTIC RETURN 1",
    "CREATE PROCEDURE": "q() SELECT 1", "CREATE TRIGGER": "tr BEFORE INSERT ON u FOR EACH ROW SET NEW.a = 1",
    "CREATE EVENT": "ev ON SCHEDULE EVERY 1 YEAR DISABLE DO SELECT 1", "DROP VIEW": "IF EXISTS v",
    "DROP FUNCTION": "IF EXISTS f", "DROP PROCEDURE": "IF EXISTS q", "DROP TRIGGER": "IF EXISTS tr",
    "DROP EVENT": "IF EXISTS ev", "CREATE SEQUENCE": "sq", "DROP SEQUENCE": "IF EXISTS sq",
    "START TRANSACTION": "READ ONLY", "SAVEPOINT": "s", "COMMIT": "", "ROLLBACK": "", "INSERT": "INTO u VALUES (77, 1)",
    "ALTER DATABASE": "CHARACTER SET latin1", "ALTER SCHEMA": "CHARACTER SET latin1", "CALL": "nothing()",
    "CREATE LIBRARY": "lib LANGUAGE JAVASCRIPT AS 'x'", "SET DEFAULT ROLE": "NONE TO root@localhost",
    "CREATE USER": "IF NOT EXISTS somebody@localhost", "DROP USER": "IF EXISTS another@localhost",
    "ALTER USER": "somebody@localhost ACCOUNT UNLOCK", "CREATE ROLE": "IF NOT EXISTS some_role",
    "DROP ROLE": "IF EXISTS some_role", "DROP SERVER": "IF EXISTS srv", "ALTER VIEW": "v AS SELECT 2 AS one",
    "UPDATE": "u SET a = 5", "DELETE": "FROM u WHERE id = 77", "REPLACE": "INTO u VALUES (1, 3)", "DO": "1",
    "XA": "RECOVER",
    "SELECT": "1", "WITH": "x AS (SELECT 1) SELECT * FROM x", "ANALYZE TABLE": "t", "ANALYZE LOCAL TABLE": "t",
    "CREATE TEMPORARY TABLE": "tmp (a INT)", "DROP TEMPORARY TABLE": "IF EXISTS tmp",
}  # fmt: skip
# which statements, and how often
ROOTS = {"create_sequence": 1, "alter_table": 80,
         "create_table": 6, "create_index": 5, "drop_index": 3, "drop_table": 3, "rename_table": 3,
         "truncate_table": 2, "harmless": 3, "temporary": 1, "changes_rows": 1, "transaction": 1,
         "create_database": 1, "drop_database": 1, "alter_database": 1, "set_statement": 1}  # fmt: skip
# attributes that a column of such a type may have, besides those that each may have
# what only the server itself writes, or what has no effect but errors here
SELDOM = (("created", "[ START TRANSACTION ]"), ("plain", "SRID number"))
ANY = ("not_null", "null", "unique_attribute", "column_check", "plain", "references", "primary")
FITTING = {
    "integer_type": (*ANY, "auto_increment", "serial_default", "default"), "serial_type": ("plain",),
    "character_type": (*ANY, "collation", "default"), "text_type": ("not_null", "null", "collation", "plain"),
    "fraction_type": (*ANY, "on_update", "default", "as_row"), "decimal_type": (*ANY, "default"),
}  # fmt: skip
OTHERWISE = ("not_null", "null", "plain")


def _servers(part: Expression) -> tuple[Expression, frozenset[str] | None]:
    return (part.part, part.servers) if isinstance(part, Only) else (part, None)


class Statements:
    """Statements for one server. `made` counts the points of those that were made last, `seen` of all so far."""

    def __init__(self, server: str, seed: int, schema: str = "d") -> None:
        self.schema = schema
        self.server, self.rng = server, random.Random(seed)
        self.seen: Counter[Point] = Counter()
        self.made: set[Point] = set()
        self._productions = grammar()
        self._known: dict[str, bool] = {}
        self._stack: list[str] = []
        self._words: list[str] = []
        self._count, self._tries = 0, Counter[Point]()
        self._table, self._kind, self._old = "t", "", "a"
        self._frames: list[Counter[str]] = [Counter()]
        self._allowed = {root: ROOTS[root] for root in ROOTS if self._has(root)}
        self._route: frozenset[Point] = frozenset()
        self._routes = self._found_routes()

    def statement(self) -> str:
        """The next one."""
        self.made, self._words = set(), []
        self._count += 1
        [root] = self.rng.choices(list(self._allowed), weights=list(self._allowed.values()))
        unseen = sorted(self._routes.keys() - self.seen.keys())
        unseen = [point for point in unseen if point[0] == "production"] or unseen
        self._route = frozenset()
        if unseen and self.rng.random() < (0.85 if unseen[0][0] == "production" else 0.25):
            root, self._route = self._routes[self.rng.choice(unseen)]
        self._table = "t"
        text = " ".join(self._production(root))
        self.seen.update(self.made)
        text = re.sub(r" @ ", "@", text)
        return re.sub(r"\b(NOW|LOCALTIME|uuid) \(", r"\1(", text)

    def points(self) -> set[Point]:
        """All there are for that server."""
        return set(self._routes)

    def _found_routes(self) -> dict[Point, tuple[str, frozenset[Point]]]:
        """For each point the statement, and the points on the way, by which it is reached first (breadth first)."""
        found: dict[Point, tuple[str, frozenset[Point]]] = {}
        queue = [(root, root, frozenset[Point]()) for root in self._allowed]
        while queue:
            name, root, way = queue.pop(0)
            if ("production", name) in found or name not in self._productions:
                continue
            found["production", name] = (root, way)
            for part, keys in self._parts(self._productions[name], frozenset()):
                points = frozenset((name, key) for key in keys)
                for point in points:
                    found.setdefault(point, (root, way | points))
                if isinstance(part, Reference):
                    queue.append((part.name, root, way | points))
        return found

    def _parts(self, part: Expression, keys: frozenset[str]) -> Iterator[tuple[Expression, frozenset[str]]]:
        """The parts that this server has, with the keys of the choices that lead there."""
        part, _ = _servers(part)
        yield part, keys
        if isinstance(part, Choice):
            for one in filter(self._possible, part.parts):
                if shown(one) not in ("body", "rest") or "rest" not in map(shown, part.parts):
                    yield from self._parts(one, keys | {shown(one)})
        elif isinstance(part, Sequence):
            for one in part.parts:
                yield from self._parts(one, keys)
        elif isinstance(part, Repeated) and self._possible(part.part):
            yield from self._parts(part.part, keys | {shown(part)})

    def _possible(self, part: Expression) -> bool:
        """Whether this server has it at all."""
        part, servers = _servers(part)
        if servers is not None and self.server not in servers:
            return False
        if isinstance(part, Sequence):
            return all(self._possible(one) for one in part.parts)
        if isinstance(part, Choice):
            return any(self._possible(one) for one in part.parts)
        if isinstance(part, Repeated):
            return part.least == 0 or self._possible(part.part)
        return not isinstance(part, Reference) or self._has(part.name)

    def _has(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = True  # a production that has itself is there, if the rest is
            self._known[name] = name not in self._productions or self._possible(self._productions[name])
        return self._known[name]

    def _production(self, name: str) -> list[str]:
        self.made.add(("production", name))
        self._stack.append(name)
        self._frames.append(Counter())
        if name == "partition_operation":
            self._table = "h" if self.rng.random() < 0.2 else "p"
        found = self._text(self._productions[name])
        if name == "column_name":
            found = self._column(found)
        if name == "length" and self._stack[-2] == "year_type":
            found = ["(", "4", ")"]
        if name == "drop_foreign_key":
            self._table = "k"
        if name == "created" and "LIKE" not in found:
            found[1:1] = ["id INT NOT NULL , a INT , b VARCHAR(20) , c INT , d DATETIME(3) ,"]
        if name == "database":
            found = [f"{self.schema}_{'x' if 'DROP' in self._words else self._count}"]
        self._frames.pop()
        self._stack.pop()
        return found

    def _column(self, written: list[str]) -> list[str]:
        """A column's name instead of what was written: one that is there, or one that is new."""
        self._count += 1
        clause = self._stack[-3] if self._stack[-2] == "column_definition" else self._stack[-2]
        old = clause == "modify_column" or self._stack[-2] == "change_column"
        name = self.rng.choice(COLUMNS) if old else f"n{self._count}"
        if clause == "change_column" and not old and self.rng.random() < 0.5:
            name = self._old
        self._old = name if old else self._old
        if "created" in self._stack or (clause == "change_column" and not old):
            written = written[-1:]  # MODIFY a .b is one name
        return [*{1: [], 2: ["."], 3: ["t", "."], 5: [self.schema, ".", "t", "."]}[len(written)], name]

    def _text(self, part: Expression) -> list[str]:
        part, _ = _servers(part)
        if isinstance(part, Word | Mark):
            self._words.append(part.text)
            if part.text == "PARTITIONING":  # REMOVE, or 5.7's UPGRADE
                self._table = "p"
            return [part.text]
        if isinstance(part, Reference):
            if part.name not in self._productions:
                written = self._terminal(part.name)
                self._words.append("")
                return [written]
            return self._production(part.name)
        if isinstance(part, Sequence):
            return self._sequence(part)
        if isinstance(part, Choice):
            return self._text(self._chosen(part))
        assert isinstance(part, Repeated)
        return self._repeated(part)

    def _sequence(self, part: Sequence) -> list[str]:
        """The table's name is written when it is known what the statement does to which table."""
        if self._stack[-1] in ("alter_table",):
            written = [self._text(one) if shown(one) != "table" else ["?"] for one in part.parts]
            return [self._table if word == "?" else word for words in written for word in words]
        return [word for one in part.parts for word in self._text(one)]

    def _chosen(self, part: Choice) -> Expression:
        possible = [one for one in part.parts if self._possible(one) and self._sensible(one)]
        keys = {id(one): (self._stack[-1], shown(one)) for one in possible}
        self.rng.shuffle(possible)
        if self.rng.random() < 0.5:
            possible.sort(key=lambda one: self._tries[keys[id(one)]])
        if self._stack[-1] == "alterations":
            possible.sort(
                key=lambda one: (
                    "how_or_clause" not in shown(one)
                    and self.rng.random() < (0.85 if "partition_operation" in shown(one) else 0.99)
                )
            )
        possible.sort(key=lambda one: keys[id(one)] not in self._route)
        one = possible[0]
        self._tries[keys[id(one)]] += 1
        self.made.add(keys[id(one)])
        if self._stack[-1] == "column_type":
            self._kind = shown(one)
        return one

    def _sensible(self, part: Expression) -> bool:
        """What the server would refuse whatever follows is left out."""
        name = shown(part)
        if name == "set_statement" and self._stack.count(name) > 1:
            return False
        if (self._stack[-1], name) in self._route:
            return True
        if self._stack[-1] == "column_definition":
            fits = self._kind in ("integer_type", "decimal_type") and self.rng.random() < 0.3
            return fits if name == "computed" else True
        if self._stack[-1] == "column_attribute":
            return name in FITTING.get(self._kind, OTHERWISE)
        if self._stack[-1] == "clause":
            return name != "table_option+" or self.rng.random() < 0.5
        return name not in ("body", "rest")

    def _repeated(self, part: Repeated) -> list[str]:
        if not self._possible(part.part):
            return []
        key = (self._stack[-1], shown(part))
        often = 1 if part.once or self.rng.random() < 0.75 else 2
        if part.least == 0:
            self._tries[key] += 1
            likely = 0.8 if self._tries[key] > 1 and not self.seen[key] else 0.3
            if self._stack[-1] == "alterations":
                likely = 0.95 if "how_or_clause" in key[1] else 0.1
            if self._stack[-1] in ("character_type", "national_type", "binary_type") and "length" in key[1]:
                likely = 0.9
            if (self._stack[-1], key[1]) in SELDOM or ("OR" in self._words and "if_not_exists" in key[1]):
                likely = 0.0
            often = often if self.rng.random() < likely or key in self._route else 0
        found: list[str] = []
        for i in range(often):
            self.made.add(key)
            found += [part.separator] if i and part.separator else []
            found += self._text(part.part)
        return found

    def _terminal(self, name: str) -> str:
        if name == "rest":
            return self._rest()
        number = self._frames[-1][name]
        self._frames[-1][name] += 1
        counted = TERMINALS.get((f"{self._stack[-1]} {number}", name))
        values = counted or TERMINALS.get((self._stack[-1], name)) or TERMINALS.get(("", name)) or ("",)
        value = self.rng.choice(values)
        self._count += 1
        return value.format(n=self._count, table=self._table)

    def _rest(self) -> str:
        words = " ".join(word for word in self._words if word and word not in ("OR", "REPLACE", "LOCAL"))
        head = next((h for h in sorted(RESTS, key=len, reverse=True) if words.startswith(h)), "")
        return RESTS.get(head, "")


TERMINALS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "identifier"): ("n{n}",), ("", "table"): ("t", "t", "nowhere.t{n}"), ("", "number"): ("1", "2"),
    ("", "string"): ("'x'", "'it''s'", "\"a 'b'\""), ("", "database"): ("other_{n}",), ("", "end"): ("",),
    ("", "body"): ("",), ("", "parentheses"): ("(id > 0)",), ("", "account"): ("root",), ("", "host"): ("localhost",),
    ("", "numeral"): ("1", "7", "2.5", ".5", "1e2", "0x41"), ("", "introduced"): ("_latin1'x'", "b'1'", "X'41'"),
    ("", "setting"): ("1", "(5 + 5)"), ("setting_of", "identifier"): ("lock_wait_timeout", "max_statement_time"),
    ("alter_table", "table"): ("t",), ("create_table", "table"): ("n{n}",), ("created", "table"): ("u",),
    ("create_index", "table"): ("t",), ("drop_index", "table"): ("t",), ("drop_index", "identifier"): ("j",),
    ("drop_table 0", "table"): ("u",), ("drop_table 1", "table"): ("t",),
    ("renamed 0", "table"): ("u", "t", "p"), ("renamed 1", "table"): ("n{n}",),

    ("rename_column 0", "identifier"): COLUMNS,
    ("rename_index 0", "identifier"): ("j",), ("precision 0", "number"): ("7",), ("constant", "string"): ("'7'",),
    ("constant", "introduced"): ("b'1'", "X'31'"), ("column_reference 0", "identifier"): COLUMNS,
    ("create_sequence", "table"): ("t", "n{n}"),
    ("truncate_table", "table"): ("u", "t"),
    ("rename_to", "table"): ("n{n}", "t"),
    ("partition_exchanged", "table"): ("u",), ("partition_absorbed", "table"): ("u",),
    ("partition_converted", "table"): ("n{n}",), ("references", "table"): ("parent",),
    ("drop_column", "identifier"): COLUMNS[1:], ("alter_column", "identifier"): ("a", "b", "c"),
    ("drop_foreign_key", "identifier"): ("f",), ("drop_index_clause", "identifier"): ("j",),
    ("drop_constraint", "identifier"): ("ch",), ("alter_check", "identifier"): ("ch",),
    ("alter_index", "identifier"): ("j",), ("place", "identifier"): ("a", "id", "d"),
    ("key_part", "identifier"): ("a", "b", "id", "d"), ("key_part", "parentheses"): ("(a + 1)",),
    ("partition_lost", "identifier"): ("p0", "p2"), ("partition_kept", "identifier"): ("p0", "p1"),
    ("partition_names", "identifier"): ("p0", "p1"), ("partition_exchanged", "identifier"): ("p0",),
    ("partition_converted", "identifier"): ("p0", "p1"),
    ("range_partition", "parentheses"): ("({n}000)",), ("list_partition", "parentheses"): ("({n})",),
    ("partitioning", "number"): ("1",),
    ("special_option", "identifier"): ("ngram",), ("special_option", "number"): ("5",),
    ("size", "number"): ("4194304",), ("size", "identifier"): ("4M",), ("collation_name", "string"): ("'latin1_bin'",),
    ("collation_name", "identifier"): ("latin1_bin",), ("option", "string"): ("'x'", "''", "'Y'"),
        ("partitioning", "parentheses"): ("(id)",),
    ("spread", "identifier"): ("id",), ("spread", "parentheses"): ("(id)",),
    ("subpartitioning", "parentheses"): ("(id)",), ("subpartitioning", "identifier"): ("id",),
 ("charset_name", "identifier"): ("latin1", "utf8mb4"),
    ("charset_name", "string"): ("'latin1'",), ("engine_name", "identifier"): ("InnoDB",),
    ("engine_name", "string"): ("'InnoDB'",), ("length", "number"): ("5", "3", "1"), ("now", "number"): ("3",),
    ("generated", "parentheses"): ("(id + 1)", "(`id` * 2)"), ("column_check", "parentheses"): ("(id > 0)",),
    ("check", "parentheses"): ("(id > 0)",), ("default_value", "parentheses"): ("(1 + 1)",),
    ("expression", "identifier"): ("uuid",), ("expression", "parentheses"): ("()",), ("label", "string"): ("'x{n}'",),
    ("label", "introduced"): ("X'61'",), ("label", "numeral"): ("0x62",), ("amount", "number"): ("1", "0"),
    ("amount", "identifier"): ("DEFAULT",), ("amount", "string"): ("'1'",),
    ("add_period", "identifier"): ("d",), ("element_period", "identifier"): ("d",),
    ("modifier", "identifier"): ("INVOKER",), ("index_option", "identifier"): ("NO",),
    ("option", "identifier"): ("DYNAMIC",), ("plain", "identifier"): ("FIXED",), ("plain", "number"): ("0",),
}  # fmt: skip
