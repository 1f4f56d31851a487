"""Writes to a table at a rate, fifty transactions a second, in a process of its own; prints one line of JSON.

    python -m bench.writer PORT TABLE[,TABLE...] CHANGES_A_SECOND SECONDS [ROWS]

Half of the changes insert a row, half update one; a transaction that comes late is not left out but follows at once.
Each changes one table, in turn. A table has that many ROWS before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing

from bench.tables import BY_NAME, DATABASE, connected

_TRANSACTIONS = 50  # a second


def write(port: int, tables: Sequence[str], rate: int, seconds: int, rows: int = 0) -> tuple[int, float]:
    """The number of changes, and how long it took to write them. Raises ValueError for a rate that is too small."""
    each, workloads = rate // _TRANSACTIONS // 2, [BY_NAME[table] for table in tables]
    if not each:
        raise ValueError(f"at least {2 * _TRANSACTIONS} changes a second")
    last = [rows] * len(tables)
    with closing(connected(port)) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {DATABASE}")
        began = time.perf_counter()
        for tick in range(seconds * _TRANSACTIONS):
            time.sleep(max(0.0, began + tick / _TRANSACTIONS - time.perf_counter()))
            which = tick % len(tables)
            workload, before = workloads[which], last[which]
            cursor.execute(workload.insert(before + 1, before + each))
            within = f"{workload.columns[0][0]} BETWEEN {before + 1} AND {before + each}"
            cursor.execute(f"UPDATE {tables[which]} SET c_login = 'seen' WHERE {within}")
            connection.commit()
            last[which] += each
        return 2 * sum(one - rows for one in last), time.perf_counter() - began


if __name__ == "__main__":
    changes, seconds = write(int(sys.argv[1]), sys.argv[2].split(","), *map(int, sys.argv[3:]))
    print(json.dumps({"rows": changes, "seconds": round(seconds, 3)}), flush=True)
