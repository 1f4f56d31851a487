"""Where everything of one pipeline lies: the one place that turns names into tables.

Locally the table `schema.name` is a plain Delta table at `<path>/<schema>/<name>`; on Databricks it is
`catalog.schema.name`. MySQL allows names that no table's folder can have (`a/b`, `..`, `_delta_log`), so a local name
is escaped like a URL where it must be; the escape is reversible, so two names never meet in one folder (see
`path_element` for long ones).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.own_columns import DEFAULT, OwnColumns
from lakehouse_cdc.model.path_element import fitted
from lakehouse_cdc.model.table_name import last_match, split

PIPELINE = "lakehouse_cdc.pipeline"  # the property of a table that names its pipeline
# _delta_log and _samples: Delta looks for no table in a folder that is called so (`DeltaTableUtils.findDeltaTableRoot`)
_UNSAFE = re.compile(r"[/\\%:\x00-\x1f]|^[.]|^_(?=(?:delta_log|samples)$)")
_OF_WORDS = ("spark_catalog", "hive_metastore")  # catalogs that take letters of ASCII, digits and _ alone


def quoted(name: str) -> str:
    """An identifier as Spark SQL reads it."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string as Spark SQL reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@dataclass(frozen=True)
class Table:
    """One Delta table, by path (`root`) or by catalog; exactly one of the two is given.

    With `part` it is a part of one: the rows of that source table, among those of others, by `own.source_table`. To
    those who read and write it, it is as a table of its own, without that column. `own` are the columns that silver
    adds; a table of bronze has none of them.
    """

    schema: str
    name: str
    root: str | None = None
    catalog: str | None = None
    part: str | None = None
    own: OwnColumns = DEFAULT

    def rows(self, alias: str = "") -> str:
        """SQL: which of the Delta table's rows are meant."""
        return "true" if self.part is None else f"{alias}{self.own.source_table} = {literal(self.part)}"

    @property
    def stamp(self) -> dict[str, str]:
        """What each row that is written has beside its columns: SQL, by column."""
        return {} if self.part is None else {self.own.source_table: literal(self.part)}

    @property
    def reserved(self) -> tuple[str, ...]:
        """The names that no column of the source's may have in the table, in any case."""
        return self.own.all_forms if self.part is None else (*self.own.all_forms, self.own.source_table)

    @property
    def path(self) -> str | None:
        """The table's folder, None where the catalog decides."""
        if self.root is None:
            return None
        folder = fitted(_UNSAFE.sub(lambda m: f"%{ord(m[0]):02X}", self.name))
        return posixpath.join(self.root, self.schema, folder)

    @property
    def has_usable_name(self) -> bool:
        """Whether the catalog takes a table of that name; a folder takes every one.

        Sources: "Names" in the SQL reference of Databricks; `SessionCatalog.validateName` of Spark 4.
        """
        if self.catalog is None:
            return True
        if self.catalog in _OF_WORDS:
            return re.fullmatch(r"\w+", self.name, re.ASCII) is not None
        return re.fullmatch(r"[^./ \x00-\x1f\x7f]{1,255}", self.name) is not None

    @property
    def sql(self) -> str:
        """The table as it is written in SQL."""
        if self.path is not None:
            return f"delta.{quoted(self.path)}"
        return ".".join(quoted(part) for part in (self.catalog or "", self.schema, self.name))

    def __str__(self) -> str:
        whole = self.path or f"{self.catalog}.{self.schema}.{self.name}"
        return whole if self.part is None else f"{whole} ({self.part})"


@dataclass(frozen=True)
class Layout:
    """The tables of the pipeline `pipeline`: give `path` (an absolute folder or a URL) or `catalog`.

    `silver` is None for a pipeline that keeps bronze alone. `silver_name` is a pattern of {database} and {table};
    `silver_names` has others, each after a pattern of source tables. `into` are the names of silver tables that several
    source tables go into, after the patterns of these; the last pattern that matches decides. `own` are the columns
    that silver's tables are to have beside the source's.
    """

    pipeline: str
    bronze: str
    silver: str | None = None
    path: str | None = None
    catalog: str | None = None
    silver_name: str = "{table}"
    into: tuple[tuple[str, str], ...] = ()
    silver_names: tuple[tuple[str, str], ...] = ()
    own: OwnColumns = DEFAULT

    def __post_init__(self) -> None:
        if (self.path is None) == (self.catalog is None):
            raise codes.SETTINGS_CONTRADICT.error(
                "give either path (local tables) or catalog (Databricks)", where="target"
            )

    @property
    def changes(self) -> Table:
        """The change table of bronze."""
        return self._table(self.bronze, "changes")

    @property
    def schemas(self) -> Table:
        """Every schema that bronze has met."""
        return self._table(self.bronze, "schemas")

    @property
    def dead_letters(self) -> Table:
        """Messages that were set aside, where bronze is made from topics."""
        return self._table(self.bronze, "dead_letters")

    @property
    def barriers(self) -> Table:
        """The truncations, and ends of repeated reads, in bronze of a declarative pipeline."""
        return self._table(self.bronze, "barriers")

    @property
    def metrics(self) -> Table:
        """What each batch was, for the operator of the pipeline."""
        return self._table(self.bronze, "metrics")

    @property
    def signals(self) -> Table:
        """What is asked of the pipeline, and what it has answered."""
        return self._table(self.bronze, "signals")

    @property
    def ledger(self) -> Table:
        """What silver's tables held when. Raises ConfigError for a pipeline without silver."""
        return self._table(self._silver, "ledger")

    def silver_table(self, source_table: str) -> Table:
        """The silver table of `database.table`, or its part of one.

        Raises ConfigError for a pipeline without silver.
        """
        into = last_match(self.into, source_table)
        if into is not None:
            return replace(self._table(self._silver, into), part=source_table)
        database, table = split(source_table)
        name = last_match(self.silver_names, source_table) or self.silver_name
        return self._table(self._silver, name.replace("{database}", database).replace("{table}", table))

    def tombstones(self, source_table: str) -> Table:
        """The deletions beside a silver table."""
        beside = self.silver_table(source_table)
        of_part = "" if beside.part is None else f"__{beside.part}"
        return self._table(beside.schema, f"{beside.name}{of_part}__tombstones")

    def silver_names_of(self, source_table: str) -> frozenset[str]:
        """The names that a silver table and its tombstones take, in lower case: catalogs compare them without case."""
        return frozenset({self.silver_table(source_table).name.lower(), self.tombstones(source_table).name.lower()})

    def takes_ledger(self, source_table: str) -> bool:
        """Whether the silver table, or its tombstones, would have the name of the ledger."""
        return self.ledger.name in self.silver_names_of(source_table)

    def sharing_names(self, source_tables: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Source tables whose silver tables cannot all be there, since their names meet; each with its group, sorted.

        Those of a group are connected by names that two of them take. Source tables that go into one silver table take
        its name together, by intent. Near-linear in the number of tables (disjoint sets).
        """
        parent: dict[str, str] = {}

        def root(name: str) -> str:
            while (above := parent.setdefault(name, name)) != name:
                parent[name] = parent[above]
                name = above
            return name

        sources = sorted(source_tables)
        for source in sources:
            first, *others = sorted(self.silver_names_of(source))
            for name in others:
                parent[root(name)] = root(first)
        groups: dict[str, list[str]] = {}
        for source in sources:
            groups.setdefault(root(min(self.silver_names_of(source))), []).append(source)
        shared: dict[str, tuple[str, ...]] = {}
        for group in groups.values():
            if len({self._silver_owner(source) for source in group}) > 1:
                shared |= dict.fromkeys(group, tuple(group))
        return shared

    def without_name(self, source_tables: Sequence[str]) -> set[str]:
        """Of source tables, first come first, those whose silver tables' names an earlier one, or the ledger, has."""
        shared = self.sharing_names(source_tables)
        owners: dict[str, tuple[str, str]] = {}
        without = set()
        for source in source_tables:
            names, owner = self.silver_names_of(source), self._silver_owner(source)
            if self.takes_ledger(source) or (source in shared and any(owners.get(n, owner) != owner for n in names)):
                without.add(source)
            else:
                owners |= dict.fromkeys(names, owner)
        return without

    def _silver_owner(self, source_table: str) -> tuple[str, str]:
        table = self.silver_table(source_table)
        return ("source table", source_table) if table.part is None else ("silver table", table.name)

    @property
    def _silver(self) -> str:
        if self.silver is None:
            raise codes.SILVER_NOT_CONFIGURED.error(
                "this pipeline keeps no silver tables", hint="name a schema as target.silver"
            )
        return self.silver

    def _table(self, schema: str, name: str) -> Table:
        return Table(schema, name, root=self.path, catalog=self.catalog, own=self.own)
