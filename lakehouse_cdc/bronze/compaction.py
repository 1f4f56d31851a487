"""The small files of a source table in the change table, put together beside the stream that adds more.

Purpose: each batch adds a file to the partition of each table that it has rows of, and the time of every reader grows
with their number. Spark's OPTIMIZE does the same; but on a local disk it must not commit while the stream does (see
`lake.direct.newest_version`), and its jobs take longer than to read and write a few files.

Invariant: the table has the same rows, each as it was, and no reader of changes sees anything.

Why it holds: the rows of whole files are written again, and the new files take the place of the old ones in one commit
(`lake.direct.replacement`). A crash before that leaves files that no commit names.

Guards: tests/bronze/test_compaction.py, tests/pipeline/test_upkeep.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lakehouse_cdc.bronze.stored_rows import stored_rows
from lakehouse_cdc.lake.direct.change_files import written
from lakehouse_cdc.lake.direct.commit import DataFile
from lakehouse_cdc.lake.direct.replacement import LiveFile, Replacement
from lakehouse_cdc.model.bronze_row import PARTITION
from lakehouse_cdc.model.table_layout import Table

FILE = 32 << 20  # bytes of a file; those that have less than half of it are put together


def put_together(table: Table, source_table: str, given_up: Callable[[], bool] = lambda: False) -> int:
    """Make few files of the small ones of that source table; of how many, 0 where there is nothing to do.

    Where `given_up` says so, what has not been begun is left for the next time. Raises DefiniteError where a file is in
    another form than ours, or somebody else has replaced one meanwhile; then nothing is done.
    """
    replacement = Replacement(table)
    files = replacement.files({PARTITION: source_table})
    old: list[LiveFile] = []
    new: list[DataFile] = []
    for group in together([file for file in files if file.size < FILE // 2]):
        if given_up():
            break
        rows = (batch for file in group for batch in stored_rows(file.place, source_table))
        new += [DataFile(**line) for lines in written(rows, str(table.path)) for line in lines.to_pylist()]
        old += group
    if old:
        replacement.commit(old, new)
    return len(old)


def together(files: Sequence[LiveFile]) -> Iterator[list[LiveFile]]:
    """Files that follow each other, as many as make one of the right size; at least two."""
    group: list[LiveFile] = []
    for file in files:
        if sum(one.size for one in group) + file.size > FILE:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group
