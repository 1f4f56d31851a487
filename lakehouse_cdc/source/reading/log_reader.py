"""A stretch of binlog, read and decoded: what binlog splits and the windows of as-of reads have in common.

The dump blocks until the server has delivered the end of the stretch (for a moment the server reports positions that a
dump cannot reach yet); an end of the stream before it is an error. Nothing after the end is looked at.

Rows of an XA transaction are left out where they were prepared. When the stretch is through, the groups of those that
are committed in it are read by themselves, from wherever they lie, and come as if their rows were at the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.offset import Identity
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.xa import Prepared
from lakehouse_cdc.mysql.binlog.boundary import Cutter
from lakehouse_cdc.mysql.binlog.checksums import Checksums
from lakehouse_cdc.mysql.binlog.dump import BinlogDump
from lakehouse_cdc.mysql.binlog.scan import Scan
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.reading.log_batch import Decoder, LogPart
from lakehouse_cdc.source.reading.xa_groups import Commits, read_groups


class LogReader:
    """The events of `schemas` in (start, end]. Iterate once; a context manager.

    `watched` is a table whose DDL alone is looked for. `prepared` are the XA transactions that are open at `start`.
    Raises DefiniteError for what must not be passed over, TransientError for a lost connection.
    """

    def __init__(
        self,
        options: SourceOptions,
        start: Position,
        end: Position,
        schemas: Sequence[TableSchema],
        identity: Identity,
        server_id: int,
        *,
        watched: TableSchema | None = None,
        prepared: Sequence[Prepared] = (),
    ) -> None:
        self._options, self._server_id = options, server_id
        self._commits = Commits(prepared)
        self._by_name = {schema.name: schema for schema in schemas}
        self._checksums = Checksums()
        self._start, self._end, self._identity = start, end, identity
        session = connect_to(options, identity)
        alone = {watched.name: watched} if watched else None
        self._scanner = BinlogScanner(start, self._by_name, watched=alone, lower_case=session.lower_case)
        try:
            self._dump = BinlogDump(session.connection, start, server_id=server_id)
        except BaseException:
            session.close()
            raise

    def __iter__(self) -> Iterator[LogPart]:
        cutter, decoder = Cutter(self._start, self._end), Decoder(self._by_name, self._options.mask_salt)
        while not cutter.done:
            part = cutter.cut(self._dump.read())
            if part.size:
                self._checksums.verify(part, str(self._scanner.position))
                for scan in self._scanner.scans(part):
                    self._check_log(scan)
                    yield decoder.decode(self._commits.without_xa(scan))
        self.close()  # the next reader has the same server_id
        yield from read_groups(self._commits.commits, self._options, self._by_name, self._identity, self._server_id)

    def _check_log(self, scan: Scan) -> None:
        """RESET leaves uuid and names as they were; the file that the offset knows must be the same file."""
        created, known = self._scanner.created, self._identity
        if scan.files == (known.file,) and created is not None and created != known.created:
            raise codes.BINLOG_RESET.error(
                f"{known.file} is a new file of an old name: the binlog was reset", where=str(scan.start),
                hint="set source.on_gap: resnapshot, which reads all tables again in a new epoch",
            )  # fmt: skip

    def close(self) -> None:
        """End the dump."""
        self._dump.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
