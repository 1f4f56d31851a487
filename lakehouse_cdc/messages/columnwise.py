"""Many rows as messages at once: what a format writes of them, a column at a time, in Arrow.

What a value looks like is said by the pieces of `texts`, which write one value; a format's writer of messages, which
writes one row, is the statement of the format. What is here gives the same bytes, for it joins the same pieces: of a
piece that is known (`WHOLE`) those of all values at once, and every other one is called for each value.

Guard: tests/messages/test_columnwise.py compares the two for every type and every format that has both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.messages.change import RANKED, Settings
from lakehouse_cdc.messages.texts import Moments, Piece, days, micros, millis, number, quoted, truth
from lakehouse_cdc.model.changelog import Op
from lakehouse_cdc.model.seq import RANK
from lakehouse_cdc.schema.table import TableSchema

Texts: TypeAlias = Any  # a pa.StringArray
Numbers = npt.NDArray[np.int64]
# all pieces of a column at once, or None where it is of a type that is not meant
Whole = Callable[[Piece, Any], Texts | None]
_NULL = "null"
_SPACE, _QUOTE, _BACKSLASH = 0x20, 0x22, 0x5C
_PLAIN_DIGITS = 6  # after the point, up to which Arrow prints a decimal without an exponent
_SHOWN = 20  # characters of a moment up to its fraction, with the point
_BETWEEN = 10  # where a moment's date ends


@dataclass(frozen=True)
class Pieces:
    """How columns are written, by their names, and which of it is known for a whole column."""

    of: Mapping[str, Piece]
    whole: Mapping[Any, Whole]

    def members(self, columns: Sequence[Any]) -> list[Any]:
        """Parts of a JSON object's inside: its members, which are those columns, in order."""
        parts: list[Any] = []
        for (name, piece), column in zip(self.of.items(), columns, strict=True):
            parts += [f"{',' if parts else ''}{quoted(name)}:", *self._column(piece, column)]
        return parts

    def _column(self, piece: Piece, column: Any) -> list[Any]:
        """Parts that are the pieces of a column's values."""
        if piece is quoted:
            return _texts(column)
        whole = self.whole.get(type(piece)) or self.whole.get(piece)
        made = None if whole is None else whole(piece, column)
        return [_one_by_one(piece, column) if made is None else made]


@dataclass(frozen=True)
class Images:
    """Images of some rows of a stretch: the values by column, and the number of the row that each is of, rising."""

    columns: Sequence[Any]
    of: Numbers


@dataclass(frozen=True)
class Stretch:
    """Rows of bronze of one table and schema whose op is r, c, u or d; each array has an element a row.

    `key` has the key's columns, in its order; None of a table without one. All rows but d have an image `after`, and d
    have one `before`. `seqs` are texts.
    """

    seqs: Texts
    ops: Texts
    key: Sequence[Any] | None
    before: Images
    after: Images
    commit_us: Numbers
    files: Texts
    pos: Numbers
    gtids: Texts

    def __len__(self) -> int:
        return len(self.seqs)

    def objects(self, pieces: Pieces, images: Images, end: str = "}") -> Texts:
        """Of each row the JSON of its image, with that end; NULL without one."""
        made = joined(["{", *pieces.members(images.columns), end], len(images.of))
        if len(images.of) == len(self):
            return made
        places = np.full(len(self), -1, np.int64)
        places[images.of] = np.arange(len(images.of))
        return made.take(pa.array(places, mask=places < 0))

    def keys(self, pieces: Pieces) -> Texts:
        """The JSON of the keys, NULL without one."""
        if self.key is None:
            return pa.nulls(len(self), pa.string())
        return joined(["{", *pieces.members(self.key), "}"], len(self))

    @property
    def ordinals(self) -> Texts:
        """As `RowChange.ordinal`."""
        low = pc.utf8_slice_codeunits(self.seqs, -len(str(RANK))).cast(pa.int64()).to_numpy()
        return numbers(low // RANK * RANKED + low % RANK)


@dataclass(frozen=True)
class Written:
    """Messages of a stretch: the row that each is of, rising; keys and values as bytes, NULL where there is none."""

    of: Numbers
    keys: Any
    values: Any


# the messages of a stretch; the number is the time of writing in microseconds since 1970
ColumnWriter = Callable[[Stretch, int], Written]
ColumnFormat = Callable[[TableSchema, Settings], ColumnWriter]


def written(rows: Stretch, keys: Texts, values: Texts, settings: Settings) -> Written:
    """A message of each row, and a tombstone where the row takes a key away."""
    of = np.arange(len(rows))
    keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
    gone = pc.equal(rows.ops, Op.DELETE.value).to_numpy(zero_copy_only=False)
    if rows.key is None or not settings.tombstones or not gone.any():
        return Written(of, keys, values)
    of = np.repeat(of, 1 + gone)
    second = np.append(False, of[1:] == of[:-1])
    return Written(of, keys.take(pa.array(of)), values.take(pa.array(of, mask=second)))


def joined(parts: Sequence[Any], rows: int) -> Texts:
    """The parts of each row, one after another: texts that all rows have, and columns of texts, whose NULL is null."""
    merged: list[Any] = [""]
    for part in parts:
        if isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    if len(merged) == 1:
        return pa.repeat(pa.scalar(merged[0], pa.string()), rows)
    return pc.binary_join_element_wise(*merged, "", null_handling="replace", null_replacement=_NULL)


def numbers(values: Numbers) -> Texts:
    """As JSON's."""
    return pa.array(values).cast(pa.string())


def quoted_texts(column: Any) -> Texts:
    """Texts in quotes; NULL stays NULL."""
    parts = _texts(column)
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")


def _texts(column: Any) -> list[Any]:
    """Most texts have nothing that JSON writes otherwise."""
    odd = _to_be_escaped(column)
    if not len(odd):
        quotes = ['"', column, '"']
        return [pc.binary_join_element_wise(*quotes, "")] if column.null_count else quotes
    mask = np.zeros(len(column), bool)
    mask[odd] = True
    escaped = _one_by_one(quoted, column.take(pa.array(odd)))
    return [pc.replace_with_mask(pc.binary_join_element_wise('"', column, '"', ""), pa.array(mask), escaped)]


def _to_be_escaped(column: Any) -> Numbers:
    """The numbers of the texts that have a control character, a quote or a backslash."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if not len(column) or ends[0] == ends[-1]:
        return np.empty(0, np.int64)
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    odd = (content < _SPACE) | (content == _QUOTE) | (content == _BACKSLASH)
    if not odd.any():
        return np.empty(0, np.int64)
    return np.unique(np.searchsorted(ends, np.flatnonzero(odd) + ends[0], "right") - 1)


def _one_by_one(piece: Piece, column: Any) -> Texts:
    return pa.array([None if value is None else piece(value) for value in column.to_pylist()], pa.string())


def _number(_: Piece, column: Any) -> Texts | None:
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.string())
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= _PLAIN_DIGITS):
        return column.cast(pa.string())
    return None


def _moments(piece: Piece, column: Any) -> Texts:
    """Arrow prints all six digits, a space between, and no zone of a moment without one."""
    assert isinstance(piece, Moments)
    text = column.cast(pa.timestamp("us")).cast(pa.string())
    shown = _SHOWN + piece.fraction if piece.fraction else _SHOWN - 1
    text = pc.binary_replace_slice(text, _BETWEEN, _BETWEEN + 1, piece.between)
    return pc.binary_join_element_wise('"', pc.utf8_slice_codeunits(text, 0, shown), f'{piece.zone}"', "")


def _millis(_: Piece, column: Any) -> Texts:
    values = column.cast(pa.int64())
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(values.fill_null(0).to_numpy() // 1000, mask=missing).cast(pa.string())


# by a piece, or by the class of one
WHOLE: Mapping[Any, Whole] = {
    number: _number,
    truth: lambda _, column: pc.if_else(column, "true", "false"),
    days: lambda _, column: column.cast(pa.int32()).cast(pa.string()),
    millis: _millis,
    micros: lambda _, column: column.cast(pa.int64()).cast(pa.string()),
    Moments: _moments,
}
