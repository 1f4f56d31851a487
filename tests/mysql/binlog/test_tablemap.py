"""Table maps of real tables against their schemas: what agrees passes, each difference is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.mysql.binlog.scanner import BinlogScanner
from lakehouse_cdc.mysql.binlog.tablemap import TableMap
from lakehouse_cdc.mysql.catalog import read_tables
from lakehouse_cdc.mysql.connection.session import ConnectionOptions, connect
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import Column, TableSchema
from tests.support.binlog_log import Log, joined
from tests.support.servers import row_metadata

DDL = """CREATE TABLE t (
    y YEAR, u INT UNSIGNED NOT NULL, z TINYINT, b BIGINT UNSIGNED, d DECIMAL(12,3) UNSIGNED, f FLOAT, g DOUBLE,
    e ENUM('a') CHARACTER SET latin1, c CHAR(3) CHARACTER SET latin1, w CHAR(200) CHARACTER SET utf8mb4,
    v VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs NOT NULL, k VARCHAR(9) CHARACTER SET ascii,
    t TEXT CHARACTER SET utf8mb3, m MEDIUMBLOB, bn BINARY(3), vb VARBINARY(300), j JSON, p POINT, bi BIT(3),
    dt DATETIME(6), ts TIMESTAMP(3) NULL, da DATE, ti TIME(2), l LONGTEXT CHARACTER SET utf8mb4,
    PRIMARY KEY (v, u), KEY functional ((UPPER(v))))"""
COLUMNS = (
    Column("y", "year", captured=False),
    Column("u", "int", nullable=False, unsigned=True),
    Column("z", "tinyint"),
    Column("b", "bigint", unsigned=True),
    Column("d", "decimal", unsigned=True, precision=12, scale=3),
    Column("f", "float"),
    Column("g", "double"),
    Column("e", "enum", charset="latin1", captured=False),
    Column("c", "char", length=3, charset="latin1", collation="latin1_swedish_ci"),
    Column("w", "char", length=200, charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
    Column("v", "varchar", nullable=False, length=30, charset="utf8mb4", collation="utf8mb4_0900_as_cs"),
    Column("k", "varchar", length=9, charset="ascii", collation="ascii_general_ci"),
    Column("t", "text", charset="utf8mb3", collation="utf8mb3_general_ci"),
    Column("m", "mediumblob"),
    Column("bn", "binary", length=3),
    Column("vb", "varbinary", length=300),
    Column("j", "json", captured=False),
    Column("p", "point", captured=False),
    Column("bi", "bit", captured=False),
    Column("dt", "datetime", fraction=6),
    Column("ts", "timestamp", fraction=3),
    Column("da", "date"),
    Column("ti", "time", fraction=2, captured=False),
    Column("l", "longtext", charset="utf8mb4", collation="utf8mb4_0900_ai_ci"),
)


def read(log: Log, database: str, schema: TableSchema, ddl: str = DDL) -> TableMap:
    log.run(f"USE {database}", "DROP TABLE IF EXISTS t", ddl)
    start = log.end
    log.run("INSERT INTO t (u, v) VALUES (1, 'x')")
    scan = BinlogScanner(start, {schema.name: schema}).feed(joined(log.buffers(start)))
    assert len(scan.rows) == 1
    return scan.tables[0]


def test_all_types_agree(log: Log, database: str) -> None:
    schema = TableSchema(database, "t", COLUMNS, ("v", "u"))
    table = read(log, database, schema)
    assert table.name == schema.name
    assert table.names == tuple(c.name for c in COLUMNS)
    assert table.nullable == tuple(c.nullable for c in COLUMNS)
    assert [n for n, u in zip(table.names, table.unsigned, strict=True) if u] == ["y", "u", "b", "d"]
    assert table.key == ((10, 0), (1, 0))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("u", {"unsigned": False}), ("z", {"unsigned": True}), ("z", {"nullable": False}), ("b", {"type": "int"}),
        ("d", {"precision": 13}), ("d", {"scale": 2}), ("c", {"length": 4}), ("c", {"charset": "ascii"}),
        ("w", {"length": 199}), ("v", {"length": 31}), ("t", {"type": "mediumtext"}), ("t", {"charset": "utf8mb4"}),
        ("m", {"type": "blob"}), ("dt", {"fraction": 3}), ("dt", {"type": "timestamp"}), ("bn", {"charset": "ascii"}),
        ("f", {"name": "ff"}),
    ],
)  # fmt: skip
def test_each_difference_is_named(log: Log, database: str, name: str, change: dict[str, object]) -> None:
    changed = tuple(replace(c, **change) if c.name == name else c for c in COLUMNS)  # type: ignore[arg-type]
    with pytest.raises(DefiniteError, match=rf"\b{name}\b") as caught:
        read(log, database, TableSchema(database, "t", changed, ("v", "u")))
    assert "mysql-bin" in caught.value.where or "mysql-bin" in str(caught.value)


def test_added_dropped_swapped_columns_and_keys(log: Log, database: str) -> None:
    for columns in (COLUMNS[:-1], (*COLUMNS, Column("new", "int")), (*COLUMNS[:-2], COLUMNS[-1], COLUMNS[-2])):
        with pytest.raises(DefiniteError, match=f"{database}.t changed: "):
            read(log, database, TableSchema(database, "t", columns, ("v", "u")))
    read(log, database, TableSchema(database, "t", COLUMNS, ()))  # what is logged may be a unique index
    for key in (("u", "v"), ("v",)):
        with pytest.raises(DefiniteError, match="primary key"):
            read(log, database, TableSchema(database, "t", COLUMNS, key))


@pytest.fixture
def minimal(log: Log) -> Iterator[None]:
    with row_metadata(log.server, "MINIMAL"):
        yield


@pytest.mark.usefixtures("minimal")
def test_minimal_metadata_has_signs_and_character_sets_alone(log: Log, database: str) -> None:
    table = read(log, database, TableSchema(database, "t", COLUMNS, ("v", "u")))
    assert table.names is None
    assert table.key == ()
    assert [c.name for c, unsigned in zip(COLUMNS, table.unsigned, strict=True) if unsigned] == ["y", "u", "b", "d"]
    texts = {c.name for c, collation in zip(COLUMNS, table.collations, strict=True) if collation is not None}
    assert {"c", "v", "w", "t"} <= texts


@pytest.mark.usefixtures("minimal")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("u", {"unsigned": False}), ("z", {"nullable": False}), ("d", {"scale": 2}), ("t", {"charset": "utf8mb4"}),
        ("m", {"type": "text", "charset": "utf8mb4"}), ("dt", {"fraction": 3}),
    ],
)  # fmt: skip
def test_minimal_metadata_names_each_difference_that_it_shows(
    log: Log, database: str, name: str, change: dict[str, object]
) -> None:
    test_each_difference_is_named(log, database, name, change)


@pytest.mark.usefixtures("minimal")
def test_minimal_metadata_counts_the_columns(log: Log, database: str) -> None:
    for columns in (COLUMNS[:-1], (*COLUMNS, Column("new", "int"))):
        with pytest.raises(DefiniteError, match=f"{len(COLUMNS)} columns in the binlog, {len(columns)} known"):
            read(log, database, TableSchema(database, "t", columns, ("v", "u")))


@pytest.mark.usefixtures("minimal")
def test_hidden_columns_of_functional_indexes_are_in_no_image(log: Log, database: str) -> None:
    columns = (Column("a", "int", nullable=False), Column("v", "varchar", length=3, charset="utf8mb4"))
    ddl = "CREATE TABLE t (a INT PRIMARY KEY, v VARCHAR(3), KEY ((a + 1)), KEY ((UPPER(v))))"
    log.run(f"USE {database}", ddl)
    start = log.end
    log.run("INSERT INTO t VALUES (1, 'x')")
    scan = BinlogScanner(start, {f"{database}.t": TableSchema(database, "t", columns, ("a",))}).feed(
        joined(log.buffers(start))
    )
    assert len(scan.tables[0].types) == 2


@pytest.mark.usefixtures("minimal")
def test_a_label_that_may_be_another_is_refused_without_labels_in_the_log(log: Log, database: str) -> None:
    log.run(f"USE {database}", "CREATE TABLE t (a INT PRIMARY KEY, e ENUM('x', '😀') CHARACTER SET utf8mb4)")
    with (
        connect(ConnectionOptions.from_url(log.server.url)) as session,
        pytest.raises(DefiniteError, match="a `\\?` in a label"),
    ):
        read_tables(session, Selection([f"{database}.t"]))
    # the setting may have been another one when the table was read
    label = Column("e", "enum", charset="utf8mb4", collation="utf8mb4_0900_ai_ci", values=("x", "?"))
    tables = {f"{database}.t": TableSchema(database, "t", (Column("a", "int", nullable=False), label), ("a",))}
    start = log.end
    log.run("INSERT INTO t VALUES (1, 2)")
    with pytest.raises(DefiniteError, match="may stand for another character"):
        BinlogScanner(start, tables).feed(joined(log.buffers(start)))


def test_a_table_that_is_altered_between_two_transactions(log: Log, database: str) -> None:
    schema = TableSchema(database, "t", (Column("a", "int", nullable=False),), ("a",))
    log.run(f"USE {database}", "CREATE TABLE t (a INT PRIMARY KEY)")
    start = log.end
    log.run("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    before = log.end
    log.run("ALTER TABLE t ADD b INT", "INSERT INTO t VALUES (3, 3)")
    scanner = BinlogScanner(start, {schema.name: schema})
    with pytest.raises(DefiniteError, match="changed: 2 columns in the binlog, 1 known; they differ in b"):
        scanner.feed(joined(log.buffers(start)))
    assert scanner.boundary > before
