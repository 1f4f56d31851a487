"""Writes to a table at a rate, fifty transactions a second, in a process of its own; prints one line of JSON.

    python -m bench.writer PORT TABLE CHANGES_A_SECOND SECONDS [ROWS]

Half of the changes insert a row, half update one; a transaction that comes late is not left out but follows at once.
The table has that many ROWS before.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

from bench.tables import BY_NAME, DATABASE, connected

_TRANSACTIONS = 50  # a second


def write(port: int, table: str, rate: int, seconds: int, rows: int = 0) -> tuple[int, float]:
    """The number of changes, and how long it took to write them. Raises ValueError for a rate that is too small."""
    each, workload = rate // _TRANSACTIONS // 2, BY_NAME[table]
    if not each:
        raise ValueError(f"at least {2 * _TRANSACTIONS} changes a second")
    key, last = workload.columns[0][0], rows
    with closing(connected(port)) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {DATABASE}")
        began = time.perf_counter()
        for tick in range(seconds * _TRANSACTIONS):
            time.sleep(max(0.0, began + tick / _TRANSACTIONS - time.perf_counter()))
            cursor.execute(workload.insert(last + 1, last + each))
            cursor.execute(f"UPDATE {table} SET c_login = 'seen' WHERE {key} BETWEEN {last + 1} AND {last + each}")
            connection.commit()
            last += each
        return 2 * (last - rows), time.perf_counter() - began


if __name__ == "__main__":
    changes, seconds = write(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
    print(json.dumps({"rows": changes, "seconds": round(seconds, 3)}), flush=True)
