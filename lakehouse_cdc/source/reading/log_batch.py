"""Events of a scan as rows that bronze can have: what every reader of the binlog hands on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse_cdc.images.program import ProgramSet
from lakehouse_cdc.images.rows.decode import ChangeImages, decode_rows
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.mysql.binlog.compression.columns import inflated
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement, Scan
from lakehouse_cdc.mysql.binlog.tablemap import with_hidden_columns
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.bronze_rows import among


@dataclass(frozen=True)
class LogPart:
    """One buffer's worth of the stretch: its changes (one entry a bronze row) and the statements that concern us.

    `schemas` are the tables that `tables()` indexes; they come in the order in which the log first names them.
    """

    scan: Scan
    changes: ChangeImages
    schemas: tuple[TableSchema, ...]
    programs: ProgramSet

    @property
    def statements(self) -> list[LoggedStatement]:
        """The statements that touch, or may touch, a table of the stretch."""
        return [s for s in self.scan.statements if s.concerns]

    def tables(self) -> npt.NDArray[np.int32]:
        """For each change, the index of its table in `schemas`."""
        return self.scan.rows.table[self.changes.event]

    def end_positions(self) -> npt.NDArray[np.int64]:
        """For each change, where its event ends."""
        return self.scan.row_end[self.changes.event]

    def transactions(self) -> npt.NDArray[np.int32]:
        """For each change, the index of its transaction."""
        return self.scan.rows.txn[self.changes.event]

    def files(self) -> list[str]:
        """For each change, the name of its file."""
        names = np.array(self.scan.files, dtype=object)
        files: list[str] = names[self.scan.transactions.file[self.transactions()]].tolist()
        return files

    def commit_us(self) -> npt.NDArray[np.int64]:
        """For each change, its commit time in microseconds since 1970."""
        return self.scan.transactions.commit_us[self.transactions()]

    def gtids_at(self, chosen: npt.NDArray[np.int64]) -> list[str | None]:
        """The GTIDs of the transactions of the chosen changes, None of one that has none."""
        transactions = self.transactions()[chosen].tolist()
        names = {i: self.scan.gtid(i) or None for i in set(transactions)}
        return [names[i] for i in transactions]

    def gtids(self) -> pa.Array:
        """For each change, its transaction's GTID, NULL where it has none; a dictionary."""
        names = [self.scan.gtid(i) or None for i in range(len(self.scan.transactions))]
        return among(pa.array(self.transactions()), names)

    def images(self, chosen: npt.NDArray[np.int64]) -> Iterator[tuple[bytes, bytes | None, bytes | None, Position]]:
        """The chosen changes as (key, before, after, position), in the log's order."""
        changes = self.changes
        columns = (
            b.to_arrow().take(pa.array(chosen)).to_pylist() for b in (changes.key, changes.before, changes.after)
        )
        files = self.scan.transactions.file[self.transactions()[chosen]].tolist()
        places = zip(files, self.end_positions()[chosen].tolist(), strict=True)
        for key, before, after, (file, pos) in zip(*columns, places, strict=True):
            yield key, before, after, Position(self.scan.files[file], pos)


class Decoder:
    """Decodes the scans of one scanner, in order.

    `schemas` are those of its captured tables, by name; `salt` is that of their masks.
    """

    def __init__(self, schemas: Mapping[str, TableSchema], salt: str) -> None:
        self._by_name, self._salt = schemas, salt
        self._programs: ProgramSet | None = None
        self._ordinals = 0

    def decode(self, scan: Scan) -> LogPart:
        """The changes of a scan."""
        programs = self._programs
        schemas = tuple(self._by_name[table.name] for table in scan.tables)
        logged = tuple(map(with_hidden_columns, schemas, scan.tables))
        scan = inflated(scan, logged)
        if programs is None or len(programs.schemas) != len(schemas):
            bare = [table.bare_doubles for table in scan.tables]
            programs = ProgramSet.of(logged, [table.types for table in scan.tables], salt=self._salt, bare_doubles=bare)
            self._programs = programs
        rows = scan.rows
        if len(rows) and rows.txn[0] == 0 and self._ordinals:
            rows = type(rows)(rows.start, rows.end, rows.kind, rows.table, rows.txn, ordinal_base=self._ordinals)
        changes = decode_rows(scan.buffer, rows, programs, where=lambda i: f"{scan.files[-1]}:{scan.row_end[i]}")
        self._ordinals = self._carried(scan, changes)
        return LogPart(scan, changes, schemas, programs)

    def _carried(self, scan: Scan, changes: ChangeImages) -> int:
        """How many ordinals the transaction that is still open at the end of this buffer has used."""
        transactions = len(scan.transactions)
        if scan.ended == transactions:
            return 0  # none is open
        open_one = transactions - 1
        if changes.n and int(scan.rows.txn[changes.event[-1]]) == open_one:
            return changes.ordinals
        return self._ordinals if open_one == 0 else 0
