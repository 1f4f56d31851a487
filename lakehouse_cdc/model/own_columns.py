"""The names of the columns that silver adds to those of the source.

They begin with the prefix that the pipeline is configured with (`target.metadata_prefix`), so a source may have columns
of any names. Two names are fixed, `__START_AT` and `__END_AT`: AUTO CDC gives the ends of a version these names, and a
table of type 2 has the same columns with and without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

START_AT, END_AT = "__START_AT", "__END_AT"
_COMMIT_TS = "commit_ts"
_LONGEST = 64  # characters of a name of a column, in MySQL and MariaDB


@dataclass(frozen=True)
class OwnColumns:
    """The names with one prefix. The suffixes differ, so the names do, too, whatever the prefix is."""

    prefix: str = "_"

    @classmethod
    def of_columns(cls, names: Sequence[str]) -> OwnColumns:
        """Those of a silver table, or of a version of one, with these columns: the commit time is the last of them."""
        return cls(names[-1].removesuffix(_COMMIT_TS))

    @property
    def seq(self) -> str:
        """The place in the order of the row's last change."""
        return f"{self.prefix}seq"

    @property
    def commit_ts(self) -> str:
        """The commit time of the row's last change."""
        return f"{self.prefix}{_COMMIT_TS}"

    @property
    def deleted_at(self) -> str:
        """With soft deletes, since when the row is gone."""
        return f"{self.prefix}deleted_at"

    @property
    def row_hash(self) -> str:
        """Of a table without a key, the digest of the row's columns."""
        return f"{self.prefix}row_hash"

    @property
    def row_copy(self) -> str:
        """Of a table without a key, the number of the row among those that are equal."""
        return f"{self.prefix}row_copy"

    @property
    def source_table(self) -> str:
        """Of a table that several source tables go into, which one the row is of."""
        return f"{self.prefix}source_table"

    @property
    def op(self) -> str:
        """What happened to the row, in a feed of AUTO CDC."""
        return f"{self.prefix}op"

    @property
    def sequence(self) -> str:
        """What a feed of AUTO CDC is ordered by."""
        return f"{self.prefix}sequence"

    @property
    def of_feed(self) -> tuple[str, ...]:
        """Those of a feed of AUTO CDC alone, which the silver table does not have."""
        return self.op, self.sequence

    @property
    def all_forms(self) -> tuple[str, ...]:
        """Those of all forms: a table may change its form, so no column of a source may have one of these names."""
        return self.seq, self.commit_ts, self.deleted_at, self.row_hash, self.row_copy, START_AT, END_AT

    @property
    def meaning(self) -> str:
        """The end of the comment of a silver table."""
        return f"{self.seq} orders the changes, {self.commit_ts} is the row's last commit."


DEFAULT = OwnColumns()


def longer_than_any(name: str) -> str:
    """A name for a column of a frame that has a source's columns, too: none of these can have it."""
    return name.ljust(_LONGEST + 1, "_")
