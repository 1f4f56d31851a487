"""A stand-in for a shared library, written byte by byte: the functions exist, and each returns one constant.

The MySQL build links against libaio and libnuma. It calls neither here (native AIO is switched off, and NUMA is said
to be absent), but the loader must find every symbol before `main`, a fresh machine lacks one or both, and it has no
compiler either. So the file that the loader wants is composed here.

Format: System V Application Binary Interface, "Object Files" and "Program Loading and Dynamic Linking" (ELF-64, with
the AMD64 supplement for the machine code), and the Linux Standard Base Core Specification, "Symbol Versioning". What
the loader needs, and all there is: one read-execute segment with hash, symbols, strings, versions and code; one
writable segment with the dynamic section (older loaders relocate its addresses in place); and PT_GNU_STACK, without
which the loader would ask for an executable stack. Addresses equal file offsets, so nothing is relocated.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_PAGE = 0x1000
_HEADER, _SEGMENT, _SEGMENTS = 64, 56, 4
_R, _W, _X = 4, 2, 1
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 0, 4, 5, 6, 10, 11, 14
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD


def shared_object(soname: str, versions: Mapping[str, Sequence[str]], result: int) -> bytes:
    """An ELF x86-64 shared object of that SONAME.

    `versions` maps a symbol version to the functions that it holds, `result` is the 32-bit integer that each of them
    returns, whatever its arguments.
    """
    names = [(symbol, index) for index, symbols in enumerate(versions.values(), start=2) for symbol in symbols]
    strings = _Strings()
    soname_at = strings.add(soname)
    verdef = _version_definitions(strings, soname, list(versions))
    named = [strings.add(symbol) for symbol, _ in names]
    code = b"\xb8" + struct.pack("<i", result) + b"\xc3"  # mov eax, result; ret
    count = len(names) + 1

    layout: dict[str, int] = {}
    at = _HEADER + _SEGMENTS * _SEGMENT
    sizes = {"hash": 4 * (3 + count), "symtab": 24 * count, "versym": 2 * count, "verdef": len(verdef)}
    for part, size in {**sizes, "strtab": len(strings.blob), "text": len(code)}.items():
        layout[part] = at = -(-at // 8) * 8
        at += size

    image = bytearray(_PAGE)
    if at > _PAGE:
        raise ValueError("more symbols than one page holds")
    parts = {
        # one bucket whose chain runs through every symbol
        "hash": struct.pack(f"<{3 + count}I", 1, count, 1, 0, *range(2, count), 0),
        "symtab": bytes(24) + b"".join(struct.pack("<IBBHQQ", n, 0x12, 0, 1, layout["text"], len(code)) for n in named),
        "versym": struct.pack(f"<{count}H", 0, *(index for _, index in names)),
        "verdef": verdef,
        "strtab": bytes(strings.blob),
        "text": code,
    }
    for part, content in parts.items():
        image[layout[part] : layout[part] + len(content)] = content
    dynamic = _dynamic(layout, soname_at, len(strings.blob), len(versions) + 1)
    head = _file_header() + _program_headers(at, len(dynamic))
    image[: len(head)] = head
    return bytes(image) + dynamic


class _Strings:
    """A string table: NUL-terminated names, found by their offset; offset 0 is the empty name."""

    def __init__(self) -> None:
        self.blob = bytearray(1)

    def add(self, name: str) -> int:
        at = len(self.blob)
        self.blob += name.encode() + b"\0"
        return at


def _elf_hash(name: str) -> int:
    """The hash function of the System V ABI, which version names are compared by."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value & 0xFFFFFFFF


def _version_definitions(strings: _Strings, soname: str, versions: Sequence[str]) -> bytes:
    """Elf64_Verdef with one Elf64_Verdaux each: the file itself (VER_FLG_BASE) as 1, the versions from 2."""
    out = b""
    every = [soname, *versions]
    for index, name in enumerate(every, start=1):
        following = 0 if index == len(every) else 28
        out += struct.pack("<HHHHIII", 1, 1 if index == 1 else 0, index, 1, _elf_hash(name), 20, following)
        out += struct.pack("<II", strings.add(name), 0)
    return out


def _dynamic(layout: Mapping[str, int], soname: int, strings: int, definitions: int) -> bytes:
    entries = [
        (_DT_SONAME, soname),
        (_DT_HASH, layout["hash"]),
        (_DT_STRTAB, layout["strtab"]),
        (_DT_STRSZ, strings),
        (_DT_SYMTAB, layout["symtab"]),
        (_DT_SYMENT, 24),
        (_DT_VERSYM, layout["versym"]),
        (_DT_VERDEF, layout["verdef"]),
        (_DT_VERDEFNUM, definitions),
        (_DT_NULL, 0),
    ]
    return b"".join(struct.pack("<qQ", tag, value) for tag, value in entries)


def _file_header() -> bytes:
    """ELF64, little endian, ET_DYN, EM_X86_64, without sections (the loader reads segments)."""
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    fields = (3, 62, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, _SEGMENTS, 64, 0, 0)
    return identity + struct.pack("<HHIQQQIHHHHHH", *fields)


def _program_headers(read_execute: int, dynamic: int) -> bytes:
    load, dynamic_type, gnu_stack = 1, 2, 0x6474E551

    def header(kind: int, flags: int, at: int, size: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)

    return (
        header(load, _R | _X, 0, read_execute, _PAGE)
        + header(load, _R | _W, _PAGE, dynamic, _PAGE)
        + header(dynamic_type, _R | _W, _PAGE, dynamic, 8)
        + header(gnu_stack, _R | _W, 0, 0, 16)
    )
