"""The tables of the census: statements by what a table is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ENGINES = (
    "InnoDB", "MyISAM", "Aria", "MEMORY", "CSV", "ARCHIVE", "MRG_MYISAM", "BLACKHOLE", "FEDERATED", "CONNECT",
    "SEQUENCE",
)  # fmt: skip
KEYS = {
    "primary key": "PRIMARY KEY (id)",
    "primary key over a prefix": "PRIMARY KEY (name(3))",
    "primary key of DOUBLE": "PRIMARY KEY (d)",
    "UNIQUE, NOT NULL": "UNIQUE (id)",
    "UNIQUE, NULL": "UNIQUE (v)",
    "none": "",
}
_COLUMNS = "id INT NOT NULL, name VARCHAR(20) NOT NULL, d DOUBLE NOT NULL, v INT"
_OPTIONS = {
    "CSV": "ENGINE = CSV",
    "MRG_MYISAM": "ENGINE = MRG_MYISAM UNION = (merged)",
    "FEDERATED": "ENGINE = FEDERATED CONNECTION = 'mysql://root@127.0.0.1:1/x/y'",
    "CONNECT": "ENGINE = CONNECT TABLE_TYPE = CSV FILE_NAME = 'x.csv'",
}
BESIDE = (  # what some of the tables are made over
    f"CREATE TABLE merged ({_COLUMNS}) ENGINE = MyISAM",
    "CREATE TABLE referenced (id INT PRIMARY KEY)",
    f"CREATE TABLE viewed ({_COLUMNS}, PRIMARY KEY (id))",
)
WRITES = (
    "UPDATE {} SET v = 5 WHERE id = 2",
    "DELETE FROM {} WHERE id = 1",
    "INSERT INTO {} (id, name, d, v) VALUES (4, 'new', 4.5, 4)",
)
_READ = "INSERT INTO {} (id, name, d, v) VALUES (1, 'one', -0.0, 1), (2, 'two', 2.5, 2), (3, 'three', 0.1, 3)"
_KINDS = {
    "partitioned by HASH": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3",
    "partitioned by RANGE, without a key": f"CREATE TABLE {{}} ({_COLUMNS}) PARTITION BY RANGE (id)"
    " (PARTITION p VALUES LESS THAN (3), PARTITION q VALUES LESS THAN MAXVALUE)",
    "compressed (ROW_FORMAT)": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id)) ROW_FORMAT = COMPRESSED",
    "a generated column, stored": f"CREATE TABLE {{}} ({_COLUMNS}, g INT AS (v + 1) STORED, PRIMARY KEY (id))",
    "a generated column, virtual": f"CREATE TABLE {{}} ({_COLUMNS}, g INT AS (v + 1) VIRTUAL, PRIMARY KEY (id))",
    "a generated column that depends on the session": f"CREATE TABLE {{}} ({_COLUMNS}, t TIMESTAMP NULL,"
    " g INT AS (HOUR(t)) VIRTUAL, PRIMARY KEY (id))",
    "an invisible column": f"CREATE TABLE {{}} ({_COLUMNS}, i INT DEFAULT 7 INVISIBLE, PRIMARY KEY (id))",
    "a foreign key": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id), parent INT,"
    " FOREIGN KEY (parent) REFERENCES referenced (id))",
    "WITH SYSTEM VERSIONING": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id)) WITH SYSTEM VERSIONING",
    "WITH SYSTEM VERSIONING, without a key": f"CREATE TABLE {{}} ({_COLUMNS}) WITH SYSTEM VERSIONING",
    "WITH SYSTEM VERSIONING, declared columns": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id),"
    " s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
    " PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
    "WITH SYSTEM VERSIONING, partitions of what has ended": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id))"
    " WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 9 (PARTITION p HISTORY, PARTITION c CURRENT)",
    "WITH SYSTEM VERSIONING, by transactions": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id),"
    " s BIGINT UNSIGNED GENERATED ALWAYS AS ROW START, e BIGINT UNSIGNED GENERATED ALWAYS AS ROW END,"
    " PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING",
    "WITH SYSTEM VERSIONING, MyISAM": f"CREATE TABLE {{}} ({_COLUMNS}, PRIMARY KEY (id)) ENGINE = MyISAM"
    " WITH SYSTEM VERSIONING",
    "a period of its own": f"CREATE TABLE {{}} ({_COLUMNS}, s DATE NOT NULL DEFAULT '2020-01-01',"
    " e DATE NOT NULL DEFAULT '2021-01-01', PERIOD FOR p (s, e), PRIMARY KEY (id, p WITHOUT OVERLAPS))",
    "a view": "CREATE VIEW {} AS SELECT * FROM viewed",
    "a sequence": "CREATE SEQUENCE {}",
}


@dataclass(frozen=True)
class Row:
    """One table of the census: of the kind `title`, or by `engine` and `key`."""

    name: str
    create: str
    engine: str | None = None
    key: str | None = None
    title: str | None = None

    @property
    def statements(self) -> tuple[str, str]:
        """What makes the table, and rows that are there when it is read first."""
        return self.create.format(self.name), _READ.format(self.name)


def rows() -> Iterator[Row]:
    """All of them, in the order of the page."""
    for engine in ENGINES:
        for number, (title, key) in enumerate(KEYS.items()):
            columns = f"{_COLUMNS} NOT NULL" if engine == "CSV" else _COLUMNS
            definition = f"{columns}, {key}" if key else columns
            options = _OPTIONS.get(engine, f"ENGINE = {engine}")
            yield Row(f"{engine.lower()}_{number}", f"CREATE TABLE {{}} ({definition}) {options}", engine, title)
    for number, (title, create) in enumerate(_KINDS.items()):
        yield Row(f"kind_{number}", create, title=title)
