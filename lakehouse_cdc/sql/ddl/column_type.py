"""A column's type in a definition, and the column that a server makes of it.

What is not known here raises `NotUnderstood`, and what the text leaves to the session or the table is taken from
`Given`, or raises it, too. Source: the reference manuals, "CREATE TABLE", "Silent Column
Specification Changes" and "String Data Type Syntax"; a test compares the result with the catalogs of real servers.
(sqlglot's MySQL dialect reads REAL as FLOAT, LONG as BIGINT and INT8 as TINYINT, so it cannot serve here.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakehouse_cdc.schema.charsets import MAX_BYTES
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.sql.ddl.parsed import Parsed
from lakehouse_cdc.sql.ddl.statement_session import UNKNOWN_SESSION, StatementSession
from lakehouse_cdc.sql.grammar.parser import Node
from lakehouse_cdc.sql.lexer import NotUnderstood


@dataclass(frozen=True)
class Given:
    """What a definition leaves open, None where not known: the table's default character set, and the server's ways.

    `timestamps_nullable`: whether a TIMESTAMP that says nothing of it is nullable (explicit_defaults_for_timestamp).
    `logs_generated`: whether the images of updates hold generated columns.
    `session` is what the statement's event says of the session that ran it.
    `greatest_end`: when a current row of a system-versioned table ends (see `schema.versioning`).
    """

    charset: str | None = None
    mariadb: bool | None = None
    timestamps_nullable: bool | None = None
    logs_generated: bool | None = None
    session: StatementSession = UNKNOWN_SESSION
    greatest_end: str | None = None


# a type's names, with the one that catalogs show
_INTEGERS = {
    "TINYINT": "tinyint", "INT1": "tinyint", "SMALLINT": "smallint", "INT2": "smallint", "MEDIUMINT": "mediumint",
    "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT": "int", "INTEGER": "int", "INT4": "int", "BIGINT": "bigint",
    "INT8": "bigint",
}  # fmt: skip
_CHARSET_WORDS = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}
TEXTS = ("tinytext", "text", "mediumtext", "longtext")
BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_SIZES = (1 << 8, 1 << 16, 1 << 24, 1 << 32)  # bytes that each of the four kinds stays below
_SPATIAL = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon")
_AS_BINARY = {"char": "binary", "varchar": "varbinary", **dict(zip(TEXTS, BLOBS, strict=True))}
_OF_CHARACTERS = (*_AS_BINARY, "enum", "set")
_MAX_ROW = 65535


class ColumnType:
    """The type at a node, with its length, sign and character set, and the attributes after it that belong to it."""

    def __init__(self, parsed: Parsed, definition: Node, given: Given) -> None:
        self._parsed, self._given = parsed, given
        [self._type] = definition.the("column_type").parts
        self._charset: str | None = None
        self._collation: str | None = None
        self._binary = False
        computed = definition.find("computed")
        after = [computed] if computed else definition.all("column_attribute")
        self._collations = [part for attribute in after for part in attribute.all("collation")]

    def column(self, name: str) -> Column:
        """The column, nullable. Raises NotUnderstood for a type that is not known here."""
        node = self._type
        column = Column(name, "")
        column = self._typed(column)
        if column.type in (*_INTEGERS.values(), "decimal", "float", "double"):
            column = replace(column, unsigned=any(s.says("UNSIGNED") or s.says("ZEROFILL") for s in node.all("sign")))
        if node.name == "serial_type":
            column = replace(column, unsigned=True)
        if column.type in _OF_CHARACTERS:
            self._character_set()
            column = self._of_characters(column)
        column = replace(column, compressed=bool(node.find("compressed")))
        return _fitting(column, BLOBS, 1)

    def _sizes(self) -> tuple[int, ...]:
        """The numbers in parentheses."""
        sizes = self._type.find("length", "precision")
        return tuple(self._parsed.number(number) for number in sizes.all("number")) if sizes else ()

    def _typed(self, column: Column) -> Column:
        name, sizes = self._type.name, self._sizes()
        if name == "integer_type":
            return replace(column, type=_INTEGERS[self._type.words[0]])
        if name == "boolean_type":
            return replace(column, type="tinyint")
        if name == "serial_type":
            return replace(column, type="bigint")
        if name == "decimal_type":
            precision, scale = (*sizes, None, None)[:2]
            return replace(column, type="decimal", precision=precision or 10, scale=scale or 0)
        if name == "float_type":
            return _rounding(replace(column, type="double" if len(sizes) == 1 and sizes[0] > 24 else "float"), sizes)
        if name in ("double_type", "real_type"):
            return _rounding(replace(column, type=self._real() if name == "real_type" else "double"), sizes)
        return self._other(column, name, sizes)

    def _real(self) -> str:
        """REAL is DOUBLE, or FLOAT under REAL_AS_FLOAT."""
        floats = self._given.session.real_is_float
        if floats is None:
            raise NotUnderstood
        return "float" if floats else "double"

    def _other(self, column: Column, name: str, sizes: tuple[int, ...]) -> Column:
        """All that is no number."""
        word = (*self._type.words, "")[0]
        if name == "bit_type":
            return replace(column, type="bit", length=(*sizes, 1)[0])
        if name == "fraction_type":
            return replace(column, type=word.lower(), fraction=(*sizes, 0)[0])
        if name in ("date_type", "year_type"):
            if sizes not in ((), (4,)):
                raise NotUnderstood  # MariaDB's YEAR(2)
            return replace(column, type=word.lower())
        if (name == "spatial_type" and word.lower() in _SPATIAL) or name in ("uuid_type", "inet_type", "vector_type"):
            return replace(column, type=word.lower())
        if name == "json_type":
            return self._json(column)
        return self._string(column, name, word, sizes)

    def _json(self, column: Column) -> Column:
        if self._given.mariadb is None:
            raise NotUnderstood
        if self._given.mariadb:
            return replace(column, type="longtext", charset="utf8mb4", collation="utf8mb4_bin")
        return replace(column, type="json")

    def _string(self, column: Column, name: str, word: str, sizes: tuple[int, ...]) -> Column:
        if name == "national_type":
            self._charset = "utf8mb3"
        if name in ("national_type", "character_type"):
            kind = "char" if self._type.find("fixed", "national_char") else "varchar"
            return replace(column, type=kind, length=(*sizes, 1)[0])
        if name == "binary_type":
            return replace(column, type=word.lower(), length=(*sizes, 1)[0])
        if name == "long_type":
            return replace(column, type="mediumblob" if self._type.says("VARBINARY") else "mediumtext")
        if name == "label_type":
            return replace(column, type=word.lower(), values=tuple(map(self._label, self._type.all("label"))))
        if name in ("text_type", "blob_type"):
            return replace(column, type=word.lower(), length=(*sizes, None)[0])
        raise NotUnderstood

    def _label(self, node: Node) -> str:
        if (string := node.find("string")) is None:
            raise NotUnderstood  # bytes
        return self._parsed.string(string).rstrip(" ")

    def _character_set(self) -> None:
        """What is said of character sets, as a part of the type and after it."""
        sets = self._type.find("character_set")
        self._binary = self._type.says("BINARY")
        for part in sets.all("charset_part") if sets else ():
            named = part.find("charset_name", "collation_name")
            if named is not None and part.says("COLLATE"):
                self._collation = self._parsed.word(named).lower()
            elif named is not None:
                self._charset = charset_name(self._parsed.word(named))
            elif part.says("BINARY"):
                self._binary = True
            else:
                self._charset = _CHARSET_WORDS[part.words[0]]
        for node in self._collations:
            self._collation = self._parsed.word(node.the("collation_name")).lower()

    def _of_characters(self, column: Column) -> Column:
        charset = self._charset or column.charset or charset_of_collation(self._collation) or self._given.charset
        if charset is None:
            raise NotUnderstood
        if charset == "binary" and column.values:
            raise NotUnderstood  # labels of bytes
        if charset == "binary" and column.type in _AS_BINARY:
            return replace(column, type=_AS_BINARY[column.type])
        collation = self._collation or (f"{charset}_bin" if self._binary else column.collation)
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
