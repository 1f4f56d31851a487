"""Calls of kernels that were built ahead: arguments that do not fit are refused, for the kernel would not notice."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.images.ahead.calls import NUMBER, caller
from lakehouse_cdc.images.ahead.library import SWITCH, kernel_ahead, usable
from lakehouse_cdc.images.binlog.stretches import pass_events
from lakehouse_cdc.images.hashing.crc32 import TABLES

NAMES = {
    "pass_events": "lakehouse_cdc.images.binlog.stretches.pass_events",
    "find_values": "lakehouse_cdc.images.extents.find_values",
    "pass_right": "lakehouse_cdc.images.hashing.crc32.pass_right",
    "gather": "lakehouse_cdc.images.typed.rows.gather",
}
DATA = np.zeros(40, np.uint8)
PAIRS, BITS, SPOTS = np.zeros((2, 3), np.int64), np.zeros((1, 2), np.uint8), np.zeros((0, 4), np.int64)
WHY = f"no library of kernels is used here: see {SWITCH}, and the version of LLVM"
pytestmark = pytest.mark.skipif(usable() is None, reason=WHY)


def call(name: str, *arguments: Any) -> Any:
    kernel = kernel_ahead(NAMES[name])
    assert kernel is not None
    return kernel(*arguments)


def test_results_are_of_their_types() -> None:
    assert call("pass_events", DATA, 0, np.int64(4), -1) == (0, 4)
    assert call("pass_right", DATA, 0, False, TABLES) == 0
    assert call("find_values", DATA[:0], 0, PAIRS, BITS, SPOTS) == 0
    none = np.zeros(0, np.int64)
    assert call("gather", DATA, none, none, DATA) is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("pass_events", (DATA, 0, 4)),
        ("pass_events", (DATA, 0, 4, -1, 0)),
        ("pass_events", (DATA, 0, 4, DATA)),
        ("pass_events", (0, 0, 4, -1)),
        ("pass_events", (DATA, 0, 4, "1")),
        ("pass_events", (DATA, 0, 4, None)),
        ("pass_events", (DATA.astype(np.int8), 0, 4, -1)),
        ("pass_events", (DATA.reshape(2, 20), 0, 4, -1)),
        ("pass_events", (DATA[::2], 0, 4, -1)),
        ("find_values", (DATA, 0, PAIRS.T, BITS, SPOTS)),
    ],
)
def test_other_arguments_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        call(name, *arguments)


def test_a_process_is_sent_its_name() -> None:
    assert pass_events(DATA, 0, 4, -1) == (0, 4)
    assert pickle.loads(pickle.dumps(pass_events)) is pass_events
    sent: Any = cloudpickle
    assert sent.loads(sent.dumps(lambda: pass_events))() is pass_events


def test_an_exception_of_a_kernel_is_no_result() -> None:
    import ctypes

    fails = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 1)
    address = ctypes.cast(fails, ctypes.c_void_p).value
    assert address is not None
    with pytest.raises(DefiniteError, match="raised an exception"):
        caller(address, [NUMBER], ["int"], True)(1)
