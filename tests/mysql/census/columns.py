"""The columns of the census: types with their attributes, each with the values that lie at its edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse_cdc.schema.table import Carried
from lakehouse_cdc.testing import VERSIONS, Version
from lakehouse_cdc.testing.versions import MARIADB

MYSQL: tuple[Version, ...] = tuple(version for version in VERSIONS if version not in MARIADB)
SPATIAL_WITH_SRID: tuple[Version, ...] = ("mysql-8.0", "mysql-9")

_NUMBERS = (
    *("NULL", "0", "1", "-1", "5", "70", "127", "128", "-128", "255", "256", "2020", "32767", "-32768", "65535"),
    *("8388607", "16777215", "16777217", "2147483647", "-2147483648", "4294967295", "9223372036854775807"),
    *("-9223372036854775808", "18446744073709551615", "1.5", "-1.5", "0.005", "1.005", "99.994", "99999.99"),
    *("1.23456", "1.23456789012345e0", "-0e0", "1e30", "-1e30", "3.4028234e38", "1e300", "5e-324", "12345.678", "0.1"),
    "99999999999999999999999999999999999.999999999999999999999999999999",
)
_TEXTS = (
    *("NULL", "''", "'a'", "'b'", "'a '", "' a'", "'A'", "'a,b'", "'é'", "'я'", "'あ'", "'😀'", "'abcde'", "'éééé5'"),
    *("REPEAT('x', 255)", "REPEAT('é', 300)", "REPEAT('z', 70000)", "REPEAT('😀', 100)", "REPEAT('é', 32767)", "'12'"),
    *("'-1.5'", "'2020-01-02 03:04:05'", "'2020-01-02'", "'1e3'", "'a\\t'", "'{\"a\": 1}'", "'::1'", "X'00'"),
)
_LABELS = ("NULL", "'a'", "'b'", "'c'", "'A'", "'é'", "'none of them'", "'a,b'", "'b,c'", "'a,b,c'", "'a,é'", "'x300'")
_BYTES = (
    *("NULL", "X''", "X'00'", "X'61'", "X'6100'", "X'FF'", "X'E9'", "X'C3A9'", "'abcde'", "REPEAT(X'00', 5)"),
    *("REPEAT(X'FF', 300)", "REPEAT('y', 70000)", "'1'", "'2020-01-02'"),
)
_MOMENTS = (
    *("NULL", "'1000-01-01'", "'1970-01-02 00:00:00'", "'2020-01-02 03:04:05.678901'", "'2021-12-31 23:59:59.5'"),
    *("'9999-12-31 23:59:59'", "'2020-02-29 00:00:00.000001'"),
)
_NO_DATES = ("'0000-00-00 00:00:00'", "'2020-00-00'", "'2020-02-31 10:00:00'")
_INSTANTS = ("NULL", "'1970-01-02 00:00:00'", "'2020-01-02 03:04:05.678901'", "'2038-01-19 03:14:07'")
_TIMES = (
    *("NULL", "'838:59:59'", "'-838:59:59'", "'00:00:00.999999'", "'-00:00:01.5'", "'11:12:13'", "'-00:00:00.000001'"),
)
_DOCUMENTS = ("NULL", "'{\"a\": 1}'", "'[1, 2.50, \"é\"]'", "'\"a\"'", "'null'", "'1'", "'true'")
_POINTS = ("NULL", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-1.5 1e10)')")
_EARTH = ("NULL", "ST_GeomFromText('POINT(1 2)', 4326)")
_LONG_ENUM = "ENUM('a', 'b', {})".format(", ".join(f"'x{n}'" for n in range(3, 301)))
_BIN, _CI = "COLLATE utf8mb4_bin", "COLLATE utf8mb4_general_ci"


@dataclass(frozen=True)
class Spec:
    """A column as it is declared, and SQL literals of values; `carried` as in `schema.representation`."""

    declared: str
    values: tuple[str, ...]
    servers: tuple[Version, ...] = VERSIONS
    carried: Carried = ""

    @property
    def name(self) -> str:
        """By which the census calls it."""
        declared = f"{self.declared[:30]}...)" if len(self.declared) > 60 else self.declared
        return f"{declared} as text" if self.carried else declared


def _specs() -> Iterator[Spec]:
    for kind in (
        *("TINYINT", "TINYINT UNSIGNED", "SMALLINT", "MEDIUMINT UNSIGNED", "INT", "INT UNSIGNED", "INT(5) ZEROFILL"),
        *("BIGINT", "BIGINT UNSIGNED", "INT NOT NULL", "BIGINT NOT NULL", "BIT(1)", "BIT(9)", "BIT(64)", "YEAR"),
        *("DECIMAL(5,2)", "DECIMAL(7,2)", "DECIMAL(7,4)", "DECIMAL(5,2) UNSIGNED", "DECIMAL(10,0)", "DECIMAL(38,10)"),
        *("DECIMAL(40,10)", "DECIMAL(65,30)", "DECIMAL(7,2) NOT NULL", "FLOAT", "FLOAT(7,2)", "FLOAT(10,3)"),
        *("FLOAT UNSIGNED", "FLOAT(7,0)", "DOUBLE", "DOUBLE(10,2)", "DOUBLE(12,4)", "DOUBLE UNSIGNED"),
    ):
        yield Spec(kind, _NUMBERS)
    for kind in (
        *("CHAR(5)", "CHAR(10)", "CHAR(10) CHARACTER SET latin1", "VARCHAR(5)", "VARCHAR(10)", "VARCHAR(300)"),
        *("VARCHAR(10) NOT NULL", f"VARCHAR(10) {_BIN}", "VARCHAR(70) CHARACTER SET utf8mb3", "TINYTEXT", "TEXT"),
        *(f"VARCHAR(10) CHARACTER SET {name}" for name in ("latin1", "ascii", "utf16", "ucs2", "cp1251", "sjis")),
        *("MEDIUMTEXT", "LONGTEXT", "TINYTEXT CHARACTER SET latin1", "TEXT CHARACTER SET latin1"),
        *("TEXT CHARACTER SET utf8mb3", "TEXT CHARACTER SET utf16", "MEDIUMTEXT CHARACTER SET latin1"),
    ):
        yield Spec(kind, _TEXTS)
    yield Spec("VARCHAR(10) COMPRESSED", _TEXTS, MARIADB)
    for kind in (
        *("ENUM('a', 'b')", "ENUM('a', 'b', 'c')", "ENUM('b', 'a', 'c')", "ENUM('a', 'b', 'é')", _LONG_ENUM),
        *("ENUM('a', 'b') CHARACTER SET latin1", "ENUM('a', 'b') NOT NULL", f"ENUM('a', 'A', 'b') {_BIN}"),
        *(f"ENUM('a', 'A', 'b', 'c') {_BIN}", f"ENUM('a', 'A', 'b', 'c') {_CI}", "SET('a', 'b')", "SET('a', 'b', 'c')"),
        *("SET('b', 'a', 'c')", "SET('a', 'b', 'é')", "SET('a', 'b', 'é') CHARACTER SET latin1", f"SET('a', 'A') {_BIN}"),  # noqa: E501
        *("SET('a','b','c','4','5','6','7','8','9')", f"SET('a', 'A', 'b') {_CI}"),
    ):  # fmt: skip
        yield Spec(kind, _LABELS)
    for kind in ("BINARY(5)", "BINARY(8)", "VARBINARY(5)", "VARBINARY(10)", "TINYBLOB", "BLOB", "MEDIUMBLOB"):
        yield Spec(kind, _BYTES)
    for kind in ("DATE", "DATETIME", "DATETIME(3)", "DATETIME(6)"):
        yield Spec(kind, _MOMENTS)
    yield Spec("DATETIME NOT NULL", _MOMENTS[1:])
    for kind in ("DATE", "DATETIME", "DATETIME(6)"):
        yield Spec(kind, (*_MOMENTS, *_NO_DATES), carried="text")
    for kind in ("TIMESTAMP NULL", "TIMESTAMP(6) NULL"):
        yield Spec(kind, _INSTANTS)
    for kind in ("TIME", "TIME(3)"):
        yield Spec(kind, _TIMES)
    yield Spec("JSON", _DOCUMENTS)
    yield Spec("GEOMETRY", _POINTS)
    yield Spec("POINT", _POINTS)
    yield Spec("POINT SRID 4326", _EARTH, SPATIAL_WITH_SRID)
    yield Spec("UUID", ("NULL", "'123e4567-e89b-12d3-a456-426655440000'"), MARIADB)
    yield Spec("INET4", ("NULL", "'1.2.3.4'"), MARIADB)
    yield Spec("INET6", ("NULL", "'::1'", "'::ffff:1.2.3.4'"), MARIADB)


SPECS = tuple(_specs())


def of_server(version: Version) -> list[Spec]:
    """Those that a server has."""
    return [spec for spec in SPECS if version in spec.servers]
