"""The source's tables and logs that `bench.speed` reads, each row a function of its number.

`customer` has the columns of TPC-DS' table of that name (specification 3.2, 2.4.7), which Flink CDC 2.0 was announced
with. What a table holds is computed by the server, so a check of what arrived needs nobody else's word.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pymysql

from lakehouse_cdc.testing import MySqlServer

DATABASE = "bench"
_AT_ONCE = 200_000  # rows of one INSERT
_FIRST_NAMES = "'James', 'Mary', 'Javier', 'Amy', 'Latisha', 'Michael', 'Fabiola', 'Robert', 'Jeremy', 'Renee'"
_LAST_NAMES = "'Lewis', 'Moran', 'Wiles', 'Hamilton', 'White', 'Deloach', 'Dunham', 'Forman', 'Christensen', 'Li'"
_COUNTRIES = "'CHILE', 'TOGO', 'NIUE', 'MALAYSIA', 'SAUDI ARABIA', 'ICELAND', 'FRENCH GUIANA', 'VANUATU'"


def connected(port: int) -> pymysql.Connection[Any]:
    """A connection to the server of a benchmark, in clear text, as everyone's is."""
    return pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4", ssl_disabled=True)


@dataclass(frozen=True)
class Workload:
    """A table: its columns as (name, MySQL type, Flink type, SQL of `n` and its hash `h`); the first one is the key.

    Not `keyed`: that column has an index that is not unique, and the table no key.
    """

    table: str
    columns: tuple[tuple[str, str, str, str], ...]
    keyed: bool = True

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{DATABASE}.{self.table}"

    @property
    def flink_row(self) -> str:
        """The row's type as Flink writes it."""
        return f"ROW<{', '.join(f'`{name}` {flink}' for name, _, flink, _ in self.columns)}>"

    def create(self, server: MySqlServer, rows: int) -> None:
        """The table anew, with rows 1 to `rows`."""
        columns = ", ".join(f"{name} {type}" for name, type, _, _ in self.columns)
        key = f"{'PRIMARY KEY' if self.keyed else 'KEY'} ({self.columns[0][0]})"
        with closing(server.connect(autocommit=True, charset="utf8mb4")) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
            cursor.execute(f"USE {DATABASE}")
            cursor.execute(f"DROP TABLE IF EXISTS {self.table}")
            cursor.execute(f"CREATE TABLE {self.table} ({columns}, {key}) CHARSET utf8mb4")
            cursor.execute(f"SET cte_max_recursion_depth = {_AT_ONCE + 1}")
            for first in range(1, rows + 1, _AT_ONCE):
                cursor.execute(self.insert(first, min(first + _AT_ONCE - 1, rows)))
            cursor.execute(f"ANALYZE TABLE {self.table}")

    def insert(self, first: int, last: int) -> str:
        """The statement that inserts rows `first` to `last`."""
        numbers = f"WITH RECURSIVE s (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last})"
        values = ", ".join(value for _, _, _, value in self.columns)
        return f"INSERT INTO {self.table} {numbers} SELECT {values} FROM (SELECT n, CRC32(n) AS h FROM s) AS numbered"


def _name(names: str, shift: int) -> str:
    return f"ELT(1 + (h >> {shift}) % {names.count(',') + 1}, {names})"


CUSTOMER = Workload(
    "customer",
    (
        ("c_customer_sk", "INT NOT NULL", "INT NOT NULL", "n"),
        ("c_customer_id", "CHAR(16) NOT NULL", "STRING", "LPAD(CONV(n, 10, 26), 16, 'A')"),
        ("c_current_cdemo_sk", "INT", "INT", "IF(h % 29, h % 1920800, NULL)"),
        ("c_current_hdemo_sk", "INT", "INT", "h % 7200"),
        ("c_current_addr_sk", "INT", "INT", "h % 1000000"),
        ("c_first_shipto_date_sk", "INT", "INT", "2449000 + h % 3650"),
        ("c_first_sales_date_sk", "INT", "INT", "2448970 + h % 3650"),
        ("c_salutation", "CHAR(10)", "STRING", "ELT(1 + h % 6, 'Mr.', 'Mrs.', 'Ms.', 'Miss', 'Sir', 'Dr.')"),
        ("c_first_name", "CHAR(20)", "STRING", _name(_FIRST_NAMES, 3)),
        ("c_last_name", "CHAR(30)", "STRING", _name(_LAST_NAMES, 7)),
        ("c_preferred_cust_flag", "CHAR(1)", "STRING", "ELT(1 + h % 2, 'Y', 'N')"),
        ("c_birth_day", "INT", "INT", "1 + h % 28"),
        ("c_birth_month", "INT", "INT", "1 + h % 12"),
        ("c_birth_year", "INT", "INT", "1924 + h % 69"),
        ("c_birth_country", "VARCHAR(20)", "STRING", _name(_COUNTRIES, 11)),
        ("c_login", "CHAR(13)", "STRING", "NULL"),
        (
            "c_email_address", "CHAR(50)", "STRING",
            f"CONCAT({_name(_FIRST_NAMES, 3)}, '.', {_name(_LAST_NAMES, 7)}, '@', LEFT(MD5(n), 16), '.org')",
        ),
        ("c_last_review_date_sk", "INT", "INT", "2452300 + h % 365"),
    ),
)  # fmt: skip
WIDE = Workload(
    "wide",
    (
        ("id", "INT NOT NULL", "INT NOT NULL", "n"),
        *((f"i{i}", "INT", "INT", f"CAST(h >> {i % 30} AS SIGNED) - 2147483648") for i in range(150)),
        *((f"s{i}", "VARCHAR(20)", "STRING", f"CONCAT('value ', h % {i + 2})") for i in range(149)),
    ),
)
TEXT = Workload(
    "text",
    (("id", "INT NOT NULL", "INT NOT NULL", "n"), ("body", "TEXT", "STRING", "REPEAT(MD5(n), 32)")),
)
BULK, SMALL, WARM, LIVE, FEW, MANY, ONE = (
    replace(CUSTOMER, table=f"customer_{kind}") for kind in ("bulk", "small", "warm", "live", "few", "many", "one")
)
KEYED, KEYLESS = (replace(CUSTOMER, table=f"customer_{kind}", keyed=kind == "keyed") for kind in ("keyed", "keyless"))
LIVES = tuple(replace(CUSTOMER, table=f"customer_live_{i}") for i in range(10))
_ALL = (*LIVES, CUSTOMER, WIDE, TEXT, BULK, SMALL, WARM, LIVE, FEW, MANY, ONE, KEYED, KEYLESS)
BY_NAME = {workload.name: workload for workload in _ALL}
