"""Which rows of a table without a key a split has: all of them, or those of a range of values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lakehouse_cdc.images.buffers import VariantBuffer
from lakehouse_cdc.images.program import row_metadata
from lakehouse_cdc.model.variant import fields
from lakehouse_cdc.mysql.key_range import place
from lakehouse_cdc.mysql.value_range import ValueSpace, alike
from lakehouse_cdc.source.reading.field_numbers import FieldRange
from lakehouse_cdc.source.splits import SnapshotSplit


class RangeOfRows:
    """The rows of one split."""

    def __init__(self, split: SnapshotSplit) -> None:
        self._schema, self._lo, self._hi = split.schema, split.lo, split.hi
        self._space = None if split.by is None else ValueSpace(split.schema, split.by)
        self._numbers = None if self._space is None else self._field_range(self._space)

    @cached_property
    def _metadata(self) -> bytes:
        return row_metadata(self._schema)

    def _field_range(self, space: ValueSpace) -> FieldRange | None:
        lo, hi = (bound[0] if bound else None for bound in (self._lo, self._hi))
        return FieldRange.of(space.column, [c.name for c in self._schema.captured], lo, hi)

    def holds(self, image: bytes | None) -> bool:
        """Whether the row of an image is one of them."""
        if self._space is None:
            return True
        return image is not None and self._space.holds(fields(image, self._metadata), self._lo, self._hi)

    def among(self, images: VariantBuffer) -> npt.NDArray[np.bool_]:
        """The same for each of many images; one that is absent is none of them."""
        there = np.ones(len(images), np.bool_) if images.valid is None else images.valid
        if self._space is None:
            return there
        held, unknown = (np.zeros(len(images), np.bool_), there)
        if self._numbers is not None:
            held, unknown = self._numbers.holds(images)
        for i in np.flatnonzero(unknown).tolist():
            held[i] = self.holds(images[i])
        return held

    @property
    def has_index(self) -> bool:
        """Whether an index is named, which may be gone by the time of a SELECT."""
        return self._space is not None

    def rows(self, wanted: Mapping[Hashable, bytes] | None, *, by_index: bool = True) -> str:
        """What follows FROM to have them, or at least those of them that have such images."""
        conditions = [] if self._space is None else [self._space.where(self._lo, self._hi)]
        if wanted is not None:
            rows = [fields(image, self._metadata) for image in wanted.values()]
            conditions.append(alike(self._schema, rows))
        table = self._space.by_index if self._space is not None and by_index else place(self._schema)
        given = " AND ".join(condition for condition in conditions if condition)
        return f"{table} WHERE {given}" if given else table
