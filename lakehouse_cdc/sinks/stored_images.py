"""The binaries of VARIANT columns as Arrow has them, for those who read images without Spark.

Whatever is not just as our own writers leave it raises NotOurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_cdc.images.typed.columns import NotOurs


def stored(images: Any) -> Any:
    """The struct of a VARIANT column's value and metadata."""
    return images.storage if isinstance(images, pa.ExtensionArray) else images


def image_parts(images: Any, chosen: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """The two binaries of each image of a VARIANT column: value, metadata. Raises NotOurs for a chosen NULL."""
    images = stored(images)
    if not pa.types.is_struct(images.type) or sorted(field.name for field in images.type) != ["metadata", "value"]:
        raise NotOurs(f"images lie as {images.type}")
    if images.null_count and not images.is_valid().to_numpy(zero_copy_only=False)[chosen].all():
        raise NotOurs("an image is NULL")
    if (value := images.field("value")).type != pa.binary():
        raise NotOurs(f"images lie as {images.type}")
    return value, images.field("metadata")


def require_among(column: Any, allowed: Sequence[Any], chosen: npt.NDArray[np.int64], otherwise: str) -> None:
    """Raise NotOurs unless the chosen values are among those allowed; NULL is not."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    good = pc.is_in(column, value_set=pa.array(allowed, kind))
    if not pc.all(good).as_py() and not good.to_numpy(zero_copy_only=False)[chosen].all():
        raise NotOurs(otherwise)
