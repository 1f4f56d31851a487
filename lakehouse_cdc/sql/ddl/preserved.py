"""Which columns hold the same values after an ALTER TABLE: a closed list of proven pairs.

Whatever is not on the list has its table read again, which is always exact. So an entry is worth its proof only where
the ALTER is common, and nothing is on the list because nothing spoke against it. An entry of `PAIRS` names the types
before and after, the conditions on their attributes, and why each value's image is the same before and after. "The same
image" means: the value in bronze, cast to the type that the new column has in images, is what a snapshot of the altered
table reads. A test runs every pair of types with edge values on each server and compares.

Two things change values besides the new type, so they have lists of their own:

- **The session.** An entry with `strict` holds only under STRICT_TRANS_TABLES or STRICT_ALL_TABLES: there the server
  refuses the statement, where otherwise it would change a value with a warning. ALTER IGNORE has no such protection and
  is not to be judged here. The mode is the one in the statement's own event.
- **The copy.** An ALTER that copies the table stores every column again, also those that it does not name: see
  `survives_copy`. Whether a statement copies is the server's decision, so each is taken to do it.

Sources: MySQL `sql/field_conv.cc` (`Copy_field::get_copy_func`, `do_field_temporal`, `do_field_enum`), `sql/field.cc`
(`Field_enum::eq_def`, `Field_num::eq_def`), `sql/sql_table.cc` (`copy_data_between_tables`); the reference manuals,
"Server SQL Modes", "Out-of-Range and Overflow Handling", "Time Zone Support"; and what the five servers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse_cdc.schema.charsets import CHARSETS, MAX_BYTES, WIDE
from lakehouse_cdc.schema.masks import gives_text
from lakehouse_cdc.schema.table import Column
from lakehouse_cdc.schema.type_registry import MARIADBS, SPATIAL
from lakehouse_cdc.schema.types import MAX_DECIMAL
from lakehouse_cdc.sql.ddl.statement_session import StatementSession

_WIDTHS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_INTEGERS = tuple(_WIDTHS)
_TEXTS = ("tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("tinyblob", "blob", "mediumblob", "longblob")
_BYTES = {
    kind: (1 << bits) - 1 for kinds in (_TEXTS, _BLOBS) for kind, bits in zip(kinds, (8, 16, 24, 32), strict=True)
}
_DATES = ("date", "datetime", "timestamp")
_LABELS = ("enum", "set")
_FULL = ("utf8mb4", "utf16", "utf16le", "utf32")  # hold every character of every other character set
_SUBSETS = ("ascii", "utf8mb3", "utf8")  # each text has the same bytes in utf8mb4
_COPIED = (
    *_INTEGERS, *_TEXTS, *_BLOBS, *_DATES, *_LABELS, *SPATIAL, *MARIADBS,
    *("decimal", "float", "double", "bit", "year", "time", "char", "varchar", "binary", "varbinary", "json", "vector"),
)  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """A condition on the attributes of two columns, in words."""

    words: str
    holds: Callable[[Column, Column, StatementSession], bool]


@dataclass(frozen=True)
class Pair:
    """Types before and after, conditions, and the reason why values are the same. `strict`: in strict mode only."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    conditions: tuple[Condition, ...]
    reason: str
    strict: bool = False

    def holds(self, old: Column, new: Column, session: StatementSession) -> bool:
        """Whether the pair is this one."""
        return (
            (session.strict or not self.strict)
            and old.type in self.old
            and new.type in self.new
            and all(condition.holds(old, new, session) for condition in self.conditions)
        )


# ------------------------------------------------------------------ conditions


def _same_definition(old: Column, new: Column, session: StatementSession) -> bool:
    sizes = ((c.type, c.unsigned, c.length, c.precision, c.scale, c.fraction, c.charset, c.values) for c in (old, new))
    return next(sizes) == next(sizes) and (old.type not in _LABELS or _same_collation(old, new, session))


def _same_collation(old: Column, new: Column, _: StatementSession) -> bool:
    return old.charset == new.charset and old.collation is not None and old.collation == new.collation


def _integer_fits(old: Column, new: Column, _: StatementSession) -> bool:
    wider = _WIDTHS[new.type] - _WIDTHS[old.type]
    return wider >= 0 if old.unsigned == new.unsigned else old.unsigned and wider > 0


def _as_many_bytes(old: Column, new: Column, _: StatementSession) -> bool:
    """Signed to UNSIGNED: bronze's and silver's types grow, so they also hold the negative values of the past."""
    return not old.unsigned and new.unsigned and _WIDTHS[new.type] >= _WIDTHS[old.type]


def _sign_kept(old: Column, new: Column, _: StatementSession) -> bool:
    return old.unsigned or not new.unsigned


def _whole_digits(old: Column, new: Column, _: StatementSession) -> bool:
    return _whole(new) >= _whole(old)


def _whole(column: Column) -> int:
    return (column.precision or 0) - (column.scale or 0)


def _scale_kept(old: Column, new: Column, _: StatementSession) -> bool:
    """A DECIMAL of more digits than Delta has is a text, which shows the scale."""
    texts = [(c.precision or 0) > MAX_DECIMAL for c in (old, new)]
    if any(texts):
        return all(texts) and (old.scale or 0) == (new.scale or 0)
    return (new.scale or 0) >= (old.scale or 0)


def _not_rounded(old: Column, new: Column, _: StatementSession) -> bool:
    return new.precision is None or (old.type, old.precision, old.scale) == (new.type, new.precision, new.scale)


def _charset_kept(old: Column, new: Column, _: StatementSession) -> bool:
    return old.charset == new.charset or (old.charset in CHARSETS and new.charset in _FULL)


def _characters_fit(old: Column, new: Column, _: StatementSession) -> bool:
    return (new.length or 0) >= (old.length or 0)


def _text_fits(old: Column, new: Column, _: StatementSession) -> bool:
    """Whether a TEXT has room for the most bytes that the old column's text can have in the new character set."""
    if old.type not in _BYTES:  # CHAR, VARCHAR
        most = (old.length or 0) * MAX_BYTES.get(new.charset or "", 1)
    elif old.charset == new.charset or (old.charset in _SUBSETS and new.charset == "utf8mb4"):
        most = _BYTES[old.type]
    else:
        most = _BYTES[old.type] // WIDE.get(old.charset or "", 1) * MAX_BYTES.get(new.charset or "", 1)
    return most <= _BYTES[new.type]


def _not_padded(_: Column, __: Column, session: StatementSession) -> bool:
    return not session.pads


def _bytes_fit(old: Column, new: Column, _: StatementSession) -> bool:
    return _BYTES.get(old.type, old.length or 0) <= _BYTES[new.type]


def _labels_appended(old: Column, new: Column, _: StatementSession) -> bool:
    return new.values[: len(old.values)] == old.values and _label_bytes(old) == _label_bytes(new)


def _label_bytes(column: Column) -> int:
    """Bytes of a stored ENUM or SET."""
    count = len(column.values)
    if column.type == "enum":
        return 1 if count < 256 else 2
    size = (count + 7) // 8
    return size if size <= 4 else 8


def _labels_in_order(old: Column, new: Column, _: StatementSession) -> bool:
    left = iter(new.values)
    return old.charset == new.charset and all(label in left for label in old.values)


def _labels_fit(old: Column, new: Column, _: StatementSession) -> bool:
    return max(map(len, old.values)) <= (new.length or 0)


def _longer_fraction(old: Column, new: Column, _: StatementSession) -> bool:
    return new.fraction >= old.fraction


SAME_DEFINITION = Condition("the same definition, names, defaults, order and collation aside", _same_definition)
SAME_COLLATION = Condition("the same character set and collation", _same_collation)
INTEGER_FITS = Condition("the new range includes the old one", _integer_fits)
AS_MANY_BYTES = Condition("from signed to UNSIGNED, in as many bytes or more", _as_many_bytes)
SIGN_KEPT = Condition("not from signed to UNSIGNED", _sign_kept)
WHOLE_DIGITS = Condition("as many digits before the point, or more", _whole_digits)
SCALE_KEPT = Condition("as many digits after the point, or more (the same number above 38 digits)", _scale_kept)
NOT_ROUNDED = Condition("the new type has no (M,D), or both are the same type with the same (M,D)", _not_rounded)
CHARSET_KEPT = Condition(f"the same character set, or {', '.join(_FULL[:-1])} or {_FULL[-1]}", _charset_kept)
CHARACTERS_FIT = Condition("as many characters (bytes), or more", _characters_fit)
TEXT_FITS = Condition("room for the longest text, in bytes of the new character set", _text_fits)
NOT_PADDED = Condition("sql_mode known, without PAD_CHAR_TO_FULL_LENGTH", _not_padded)
BYTES_FIT = Condition("room for the longest value", _bytes_fit)
LABELS_APPENDED = Condition("new labels after the old ones, in as many stored bytes", _labels_appended)
LABELS_IN_ORDER = Condition("all old labels in their order, in the same character set", _labels_in_order)
LABELS_FIT = Condition("as many characters as the longest label has, or more", _labels_fit)
LONGER_FRACTION = Condition("as many digits of a second, or more", _longer_fraction)

# ------------------------------------------------------------------ the list

_REFUSED = "the server refuses the statement if a row holds a negative value"
PAIRS = (
    Pair(_COPIED, _COPIED, (SAME_DEFINITION,), "the server copies the stored value"),
    Pair(_INTEGERS, _INTEGERS, (INTEGER_FITS,), "every old value is in the new range"),
    Pair(_INTEGERS, _INTEGERS, (AS_MANY_BYTES,), _REFUSED, strict=True),
    Pair(("decimal",), ("decimal",), (SIGN_KEPT, WHOLE_DIGITS, SCALE_KEPT), "no digit is lost"),
    Pair(("decimal",), ("decimal",), (WHOLE_DIGITS, SCALE_KEPT), _REFUSED, strict=True),
    Pair(("float",), ("float", "double"), (SIGN_KEPT, NOT_ROUNDED), "a FLOAT is a DOUBLE, exactly"),
    Pair(("double",), ("double",), (SIGN_KEPT, NOT_ROUNDED), "nothing is rounded"),
    Pair(("char",), ("char",), (CHARSET_KEPT, CHARACTERS_FIT), "read without the spaces that fill it up, either way"),
    Pair(("varchar",), ("varchar",), (CHARSET_KEPT, CHARACTERS_FIT), "every text fits, and every character exists"),
    Pair(("char",), ("varchar",), (CHARSET_KEPT, CHARACTERS_FIT, NOT_PADDED), "the text without the filling spaces"),
    Pair(("varchar", *_TEXTS), _TEXTS, (CHARSET_KEPT, TEXT_FITS), "every text fits, and every character exists"),
    Pair(("char",), _TEXTS, (CHARSET_KEPT, TEXT_FITS, NOT_PADDED), "the text without the filling spaces"),
    Pair(("varbinary",), ("varbinary",), (CHARACTERS_FIT,), "every value fits"),
    Pair(("varbinary", *_BLOBS), _BLOBS, (BYTES_FIT,), "every value fits"),
    Pair(("enum",), ("enum",), (SAME_COLLATION, LABELS_APPENDED), "the stored numbers are copied"),
    Pair(("enum",), ("varchar",), (CHARSET_KEPT, LABELS_FIT), "the label is the text"),
    Pair(("set",), ("set",), (SAME_COLLATION, LABELS_APPENDED), "the stored bits are copied"),
    Pair(
        ("enum",),
        ("enum",),
        (LABELS_IN_ORDER,),
        "labels are found by their text, and the server refuses two that are equal in the new collation",
        strict=True,
    ),
    Pair(
        ("set",),
        ("set",),
        (LABELS_IN_ORDER,),
        "labels are found by their text, and the server refuses two that are equal in the new collation",
        strict=True,
    ),
    Pair(("datetime",), ("datetime",), (LONGER_FRACTION,), "zeros are appended"),
)
NOT_NULL = (
    "A column that becomes NOT NULL is on the list in strict mode alone: there the server refuses the statement if a"
    " row holds NULL."
)
TEXT_KEPT = (
    "A column whose values are carried as text, or masked as text, must have the same number of digits after the point"
    " (of a second) before and after."
)


def survives_copy(column: Column, session: StatementSession) -> bool:
    """Whether a column that a statement does not define again is proven to hold what it held, if the table is copied.

    MySQL converts each TIMESTAMP to the session's time zone and back, so that of the two hours before and after a clock
    is set back one is left. A date that no calendar has becomes 0000-00-00, which shows where dates are carried as
    text; in strict mode the server refuses that. A text in a COMPRESSED column that does not become smaller is cut,
    even to nothing (seen on MariaDB 10.11, not on 11.8); in strict mode the server refuses that, too. A generated
    column that is stored is computed again, under this session.
    """
    if column.compressed and not session.strict:
        return False
    if column.generated not in ("", "same") or (column.type == "timestamp" and session.local_time):
        return False
    return session.strict or not (column.type in _DATES and _as_text(column))


def preserved(old: Column, new: Column, session: StatementSession) -> bool:
    """Whether it is proven that every value of `old` has the same image in `new`, which it became by an ALTER TABLE.

    Only the types and attributes of the two columns are looked at, neither names nor positions.
    """
    return proof(old, new, session) is not None


def proof(old: Column, new: Column, session: StatementSession) -> Pair | None:
    """The entry of the list that proves it; None where there is none."""
    if old.nullable and not new.nullable and not session.strict:
        return None  # NULL becomes 0, or an empty text
    if not survives_copy(old, session) or not _same_text(old, new):
        return None
    return next((pair for pair in PAIRS if pair.holds(old, new, session)), None)


def _same_text(old: Column, new: Column) -> bool:
    """Whether values that become text, as the user configures it, become the same."""
    if not (_as_text(old) or _as_text(new)) or "" == old.carried == new.carried == old.mask == new.mask:
        return True
    return old.mask == new.mask and (old.type, old.scale, old.fraction) == (new.type, new.scale, new.fraction)


def _as_text(column: Column) -> bool:
    return column.carried == "text" or gives_text(column)


def markdown() -> str:
    """The list as a table of the documentation."""
    lines = ["| before | after | where | sql_mode | because |", "|---|---|---|---|---|"]
    for pair in PAIRS:
        where = "; ".join(condition.words for condition in pair.conditions) or "always"
        mode = "strict" if pair.strict else "any"
        lines.append(f"| {_names(pair.old)} | {_names(pair.new)} | {where} | {mode} | {pair.reason} |")
    return "\n".join(lines)


def _names(kinds: tuple[str, ...]) -> str:
    return "every type" if kinds == _COPIED else ", ".join(kind.upper() for kind in kinds)
