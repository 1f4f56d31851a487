"""MySQL into a Delta lakehouse: exact at a binlog position, lock-free, parallel, verified.

from lakehouse_cdc import Pipeline
Pipeline.from_yaml("pipeline.yml").run(once=True)

from lakehouse_cdc import MySqlCdcSource
spark.dataSource.register(MySqlCdcSource)
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.archived import unpacked

if (_folder := unpacked(__path__[0])) is not None:  # before any other part of the package is imported
    __path__ = [_folder]
    __file__ = os.path.join(_folder, "__init__.py")
    sys.modules["lakehouse_cdc.archived"].__file__ = os.path.join(_folder, "archived.py")

from lakehouse_cdc.errors import ConfigError, DefiniteError, TransientError

if TYPE_CHECKING:
    from lakehouse_cdc.pipeline.pipeline import Pipeline
    from lakehouse_cdc.source.spark.stream import MySqlCdcSource

__all__ = ["ConfigError", "DefiniteError", "MySqlCdcSource", "Pipeline", "TransientError"]


_LAZY = {"Pipeline": "lakehouse_cdc.pipeline.pipeline", "MySqlCdcSource": "lakehouse_cdc.source.spark.stream"}


def __getattr__(name: str) -> Any:
    """`Pipeline` and `MySqlCdcSource` on first use: a worker that needs an error alone loads nothing else."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
