"""The stand-in libraries: loaded by the real loader, and by the real server (test_server)."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.testing.elf import shared_object

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and platform.machine() == "x86_64"), reason="an ELF x86-64 loader"
)

_symbols = st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,15}", fullmatch=True), min_size=1, max_size=12, unique=True)


@given(symbols=_symbols, cut=st.integers(0, 12), result=st.integers(-(2**31), 2**31 - 1))
def test_every_function_is_found_and_returns_the_constant(
    tmp_path_factory: pytest.TempPathFactory, symbols: list[str], cut: int, result: int
) -> None:
    path = tmp_path_factory.mktemp("elf") / "libstandin.so.1"
    path.write_bytes(shared_object("libstandin.so.1", {"V_1": symbols[:cut], "V_2": symbols[cut:]}, result))
    library = ctypes.CDLL(str(path))
    # by item, since an attribute may not begin with two underscores
    assert [library[symbol](1, 2, 3) for symbol in symbols] == [result] * len(symbols)
    assert not hasattr(library, "absent" * 4)


def test_a_versioned_lookup_finds_its_version_alone(tmp_path: Path) -> None:
    path = tmp_path / "libstandin.so.1"
    path.write_bytes(shared_object("libstandin.so.1", {"OLD_0.1": ["one"], "NEW_0.4": ["two"]}, 7))
    handle = ctypes.CDLL(str(path))._handle
    dlvsym = ctypes.CDLL(None).dlvsym
    dlvsym.restype, dlvsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    assert dlvsym(handle, b"one", b"OLD_0.1")
    assert dlvsym(handle, b"two", b"NEW_0.4")
    assert not dlvsym(handle, b"one", b"NEW_0.4")


def test_more_than_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match="one page"):
        shared_object("lib.so", {"V": [f"symbol_{n}" for n in range(400)]}, 0)
