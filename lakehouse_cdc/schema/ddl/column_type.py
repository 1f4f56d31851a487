"""A column's type as text, and the column that a server makes of it.

The grammar is closed: a type that is not on the lists raises `NotUnderstood`, and what the text leaves to the session
or the table is taken from `Given`, or raises it, too. Source: the reference manuals, "CREATE TABLE", "Silent Column
Specification Changes" and "String Data Type Syntax"; a test compares the result with the catalogs of real servers.
(sqlglot's MySQL dialect reads REAL as FLOAT, LONG as BIGINT and INT8 as TINYINT, so it cannot serve here.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse_cdc.schema.charsets import MAX_BYTES
from lakehouse_cdc.schema.ddl.literals import number, text
from lakehouse_cdc.schema.ddl.statement_session import UNKNOWN_SESSION, StatementSession
from lakehouse_cdc.schema.lexer import NotUnderstood, Reader
from lakehouse_cdc.schema.table import Column


@dataclass(frozen=True)
class Given:
    """What a definition leaves open, None where not known: the table's default character set, and the server's ways.

    `timestamps_nullable`: whether a TIMESTAMP that says nothing of it is nullable (explicit_defaults_for_timestamp).
    `session` is what the statement's event says of the session that ran it.
    """

    charset: str | None = None
    mariadb: bool | None = None
    timestamps_nullable: bool | None = None
    session: StatementSession = UNKNOWN_SESSION


# a type's names, with the one that catalogs show
_INTEGERS = {
    "TINYINT": "tinyint", "INT1": "tinyint", "SMALLINT": "smallint", "INT2": "smallint", "MEDIUMINT": "mediumint",
    "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT": "int", "INTEGER": "int", "INT4": "int", "BIGINT": "bigint",
    "INT8": "bigint",
}  # fmt: skip
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC", "FIXED")
_FRACTIONS = ("TIME", "DATETIME", "TIMESTAMP")
_STRINGS = {"CHAR": "char", "CHARACTER": "char", "VARCHAR": "varchar", "VARCHARACTER": "varchar"}
TEXTS = ("tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_SIZES = (1 << 8, 1 << 16, 1 << 24, 1 << 32)  # bytes that each of the four kinds stays below
_SPATIAL = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_AS_BINARY = {"char": "binary", "varchar": "varbinary", **dict(zip(TEXTS, BLOBS, strict=True))}
_OF_CHARACTERS = (*_AS_BINARY, "enum", "set")
_MAX_ROW = 65535


class ColumnType:
    """The type at the cursor, with its length, sign and character set."""

    def __init__(self, reader: Reader, given: Given) -> None:
        self._reader, self._given = reader, given
        self._charset: str | None = None
        self._collation: str | None = None

    def column(self, name: str) -> tuple[Column, str]:
        """The column, nullable, and the word that names its type."""
        said = self._word()
        column = self._typed(Column(name, ""), said)
        if column.type in (*_INTEGERS.values(), "decimal", "float", "double"):
            column = self._signed(column)
        if column.type in _OF_CHARACTERS:
            self._character_set()
            column = self._of_characters(column)
        return _fitting(column, BLOBS, 1), said

    def _word(self) -> str:
        word = self._reader.word()
        if not word.isalnum():
            raise NotUnderstood
        self._reader.at += 1
        return word

    def _typed(self, column: Column, said: str) -> Column:
        reader = self._reader
        if said in _INTEGERS:
            self._numbers(1)
            return replace(column, type=_INTEGERS[said])
        if said in ("BOOL", "BOOLEAN"):
            return replace(column, type="tinyint")
        if said == "SERIAL":
            return replace(column, type="bigint", unsigned=True)
        if said in _DECIMALS:
            precision, scale = (*self._numbers(2), None, None)[:2]
            return replace(column, type="decimal", precision=precision or 10, scale=scale or 0)
        if said == "FLOAT":
            sizes = self._numbers(2)
            kind = "double" if len(sizes) == 1 and sizes[0] > 24 else "float"
            return _rounding(replace(column, type=kind), sizes)
        if said in ("DOUBLE", "REAL"):
            if said == "DOUBLE":
                reader.skip("PRECISION")
            return _rounding(replace(column, type=self._real() if said == "REAL" else "double"), self._numbers(2))
        return self._other(column, said)

    def _real(self) -> str:
        """REAL is DOUBLE, or FLOAT under REAL_AS_FLOAT."""
        floats = self._given.session.real_is_float
        if floats is None:
            raise NotUnderstood
        return "float" if floats else "double"

    def _other(self, column: Column, said: str) -> Column:
        """All that is no number."""
        if said == "BIT":
            return replace(column, type="bit", length=(*self._numbers(1), 1)[0])
        if said in _FRACTIONS:
            return replace(column, type=said.lower(), fraction=(*self._numbers(1), 0)[0])
        if said in ("DATE", "JSON", "YEAR"):
            if self._numbers(1 if said == "YEAR" else 0) not in ((), (4,)):
                raise NotUnderstood  # MariaDB's YEAR(2)
            return self._json(column) if said == "JSON" else replace(column, type=said.lower())
        if said.lower() in _SPATIAL:
            return replace(column, type=said.lower())
        return self._string(column, said)

    def _json(self, column: Column) -> Column:
        if self._given.mariadb is None:
            raise NotUnderstood
        if self._given.mariadb:
            return replace(column, type="longtext", charset="utf8mb4", collation="utf8mb4_bin")
        return replace(column, type="json")

    def _string(self, column: Column, said: str) -> Column:
        reader = self._reader
        if said in ("BINARY", "VARBINARY"):
            sizes = self._numbers(1)
            if said == "VARBINARY" and not sizes:
                raise NotUnderstood
            return replace(column, type=said.lower(), length=(*sizes, 1)[0])
        if said in ("NATIONAL", "NCHAR", "NVARCHAR"):
            self._charset = "utf8mb3"
            said = {"NCHAR": "CHAR", "NVARCHAR": "VARCHAR"}.get(said) or self._word()
        if said in _STRINGS:
            kind = "varchar" if reader.skip("VARYING") else _STRINGS[said]
            sizes = self._numbers(1)
            if kind == "varchar" and not sizes:
                raise NotUnderstood
            return replace(column, type=kind, length=(*sizes, 1)[0])
        if said in ("ENUM", "SET"):
            return replace(column, type=said.lower(), values=self._labels())
        for kinds in (TEXTS, BLOBS):
            if said.lower() in kinds:
                sizes = self._numbers(1) if said in ("TEXT", "BLOB") else ()
                return replace(column, type=said.lower(), length=(*sizes, None)[0])
        raise NotUnderstood

    def _numbers(self, most: int) -> tuple[int, ...]:
        """`(m)` or `(m, n)`, where there are any."""
        reader, found = self._reader, []
        if reader.skip("("):
            found.append(number(reader))
            while reader.skip(","):
                found.append(number(reader))
            reader.expect(")")
        if len(found) > most:
            raise NotUnderstood
        return tuple(found)

    def _labels(self) -> tuple[str, ...]:
        reader, found = self._reader, []
        reader.expect("(")
        found.append(text(reader).rstrip(" "))
        while reader.skip(","):
            found.append(text(reader).rstrip(" "))
        reader.expect(")")
        return tuple(found)

    def _signed(self, column: Column) -> Column:
        reader = self._reader
        while True:
            if reader.either("UNSIGNED", "ZEROFILL"):
                column = replace(column, unsigned=True)
            elif not reader.skip("SIGNED"):
                return column

    def _character_set(self) -> None:
        """CHARACTER SET and COLLATE, which may also stand behind the other attributes: then it is not understood."""
        reader = self._reader
        while True:
            if reader.either("CHARACTER SET", "CHARSET"):
                self._charset = charset_name(reader.identifier())
            elif reader.skip("ASCII"):
                self._charset = "latin1"
            elif reader.skip("UNICODE"):
                self._charset = "ucs2"
            elif reader.skip("BYTE"):
                self._charset = "binary"
            elif reader.skip("COLLATE"):
                self._collation = reader.identifier().lower()
            else:
                return

    def _of_characters(self, column: Column) -> Column:
        charset = self._charset or column.charset or charset_of_collation(self._collation) or self._given.charset
        if charset is None:
            raise NotUnderstood
        if charset == "binary" and column.type in _AS_BINARY:
            return replace(column, type=_AS_BINARY[column.type])
        collation = self._collation or column.collation
        column = replace(column, charset=charset, collation=collation)
        width = MAX_BYTES.get(charset, 1)
        if column.type == "varchar" and (column.length or 0) * width > _MAX_ROW:
            raise NotUnderstood  # a TEXT, where the session's mode allows it
        return _fitting(column, TEXTS, width)


def _rounding(column: Column, sizes: tuple[int, ...]) -> Column:
    """FLOAT(M,D) and DOUBLE(M,D) round what is stored; FLOAT(p) only says how many bytes there are."""
    return replace(column, precision=sizes[0], scale=sizes[1]) if len(sizes) == 2 else column


def _fitting(column: Column, kinds: tuple[str, ...], width: int) -> Column:
    """TEXT(n) and BLOB(n) are the smallest kind that holds n."""
    if column.type not in kinds or column.length is None:
        return column
    size = column.length * width
    return replace(
        column, type=next(kind for kind, most in zip(kinds, _SIZES, strict=True) if size < most), length=None
    )


def charset_of_collation(collation: str | None) -> str | None:
    """The character set that a collation's name begins with."""
    if collation is None:
        return None
    charset, _, rest = collation.partition("_")
    if (not rest and collation != "binary") or charset == "uca1400":
        raise NotUnderstood
    return charset_name(charset)


def charset_name(name: str) -> str:
    """utf8 is another name of utf8mb3."""
    return "utf8mb3" if name.lower() == "utf8" else name.lower()
