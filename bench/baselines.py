"""One run of what others do in Python or Spark, in a process of its own; prints one line of JSON.

python -m bench.baselines drain PORT TABLE            # the bytes of SELECT *, by the binary protocol, into nothing
python -m bench.baselines pymysql PORT TABLE          # PyMySQL, rows one by one
python -m bench.baselines jdbc PORT TABLE FOLDER JAR  # Spark's JDBC source into a Delta table
python -m bench.baselines replication PORT TABLE START MOST   # mysql-replication, the first so many changes
"""

from __future__ import annotations

import json
import struct
import sys
import time
from contextlib import closing
from typing import Any

import pymysql.cursors
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from bench.tables import BY_NAME, connected
from lakehouse_cdc.mysql.wire.select import COM_STMT_EXECUTE, COM_STMT_PREPARE
from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.workers.launcher import programs

_BUFFER = 4 << 20
_TASKS_OF_CORE = 4


def drain(port: int, table: str) -> tuple[int, float]:
    """What a socket can deliver: every byte of the answer is received, none is looked at but the last nine.

    These are a packet of five bytes that begins with 0xfe: the end of a result.
    """
    with closing(connected(port)) as connection:
        rows = _count(connection, table)
        inside: Any = connection
        inside._execute_command(COM_STMT_PREPARE, f"SELECT * FROM {table}")
        statement, columns, _ = struct.unpack_from("<IHH", inside._read_packet().get_all_data(), 1)
        for _ in range(columns + 1):
            inside._read_packet()
        buffer, socket = bytearray(_BUFFER), inside._sock
        began = time.perf_counter()
        inside._execute_command(COM_STMT_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        view, tail = memoryview(buffer), b""
        while not (len(tail) == 9 and tail[:3] == b"\x05\x00\x00" and tail[4:5] == b"\xfe"):
            got = socket.recv_into(view)
            tail = (tail + bytes(view[max(0, got - 9) : got]))[-9:]
        seconds = time.perf_counter() - began
        inside._force_close()
    return rows, seconds


def pymysql_rows(port: int, table: str) -> tuple[int, float]:
    """Rows as tuples of Python's values."""
    with closing(connected(port)) as connection, connection.cursor(pymysql.cursors.SSCursor) as cursor:
        began = time.perf_counter()
        cursor.execute(f"SELECT * FROM {table}")
        rows = sum(1 for _ in cursor)
        return rows, time.perf_counter() - began


def jdbc(port: int, table: str, folder: str, jar: str) -> tuple[int, float]:
    """Spark's own way, in ranges of the key that all cores read, with a cursor on the server as its size wants it."""
    spark = local_session("bench", conf={"spark.driver.extraClassPath": jar}, python=programs())
    cores = spark.sparkContext.defaultParallelism
    key = BY_NAME[table].columns[0][0]
    with closing(connected(port)) as connection:
        rows = _count(connection, table)
    options = {
        "url": f"jdbc:mysql://127.0.0.1:{port}/?useSSL=false&allowPublicKeyRetrieval=true&useCursorFetch=true",
        "driver": "com.mysql.cj.jdbc.Driver", "user": "root", "password": "", "fetchsize": "10000",
        "partitionColumn": key, "lowerBound": "1", "upperBound": str(rows),
        "numPartitions": str(cores * _TASKS_OF_CORE),
    }  # fmt: skip

    def load(name: str, place: str) -> None:
        spark.read.format("jdbc").options(**options, dbtable=name).load().write.format("delta").save(place)

    load("bench.customer_warm", f"{folder}/warm")
    began = time.perf_counter()
    load(table, f"{folder}/rows")
    seconds = time.perf_counter() - began
    assert spark.read.format("delta").load(f"{folder}/rows").count() == rows
    return rows, seconds


def replication(port: int, table: str, start: str, most: int) -> tuple[int, float]:
    """The first `most` changes behind a position, as dictionaries."""
    database, _, name = table.partition(".")
    file, _, pos = start.rpartition(":")
    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": port, "user": "root", "passwd": ""},
        server_id=78_002, log_file=file, log_pos=int(pos), resume_stream=True, blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent], only_schemas=[database], only_tables=[name],
    )  # fmt: skip
    changes = 0
    began = time.perf_counter()
    for event in stream:
        changes += len(event.rows)
        if changes >= most:
            break
    seconds = time.perf_counter() - began
    stream.close()
    assert changes >= most
    return changes, seconds


def _count(connection: pymysql.Connection[Any], table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {table}")
        [(rows,)] = cursor.fetchall()
    return int(rows)


def main() -> None:
    """See above."""
    what, port, table, *more = sys.argv[1:]
    if what == "drain":
        rows, seconds = drain(int(port), table)
    elif what == "pymysql":
        rows, seconds = pymysql_rows(int(port), table)
    elif what == "jdbc":
        rows, seconds = jdbc(int(port), table, *more)
    elif what == "replication":
        start, most = more
        rows, seconds = replication(int(port), table, start, int(most))
    else:
        raise SystemExit(f"{what} is none of drain, pymysql, jdbc, replication")
    print(json.dumps({"rows": rows, "seconds": round(seconds, 3)}), flush=True)


if __name__ == "__main__":
    main()
