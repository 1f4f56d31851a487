"""Reading little-endian fields in order, each one inside the bytes that are there."""

from __future__ import annotations

from lakehouse_cdc.errors import DefiniteError, codes


class Cursor:
    """A place in `data`. Every method raises DefiniteError at `where` instead of reading past the end."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._at = 0
        self._where = where

    @property
    def left(self) -> int:
        """The bytes not read yet."""
        return len(self._data) - self._at

    def fail(self) -> DefiniteError:
        """The error for bytes that do not add up."""
        return codes.BINLOG_DAMAGED.error("a binlog event is malformed", where=self._where)

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise self.fail()
        self._at += count
        return self._data[self._at - count : self._at]

    def skip(self, count: int) -> None:
        self.take(count)

    def rest(self) -> bytes:
        return self.take(self.left)

    def end(self) -> None:
        """Everything must have been read."""
        if self.left:
            raise self.fail()

    def byte(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def length(self) -> int:
        """A length-encoded integer of the client protocol."""
        first = self.byte()
        if first < 0xFB:
            return first
        if first in (0xFC, 0xFD, 0xFE):
            return int.from_bytes(self.take({0xFC: 2, 0xFD: 3, 0xFE: 8}[first]), "little")
        raise self.fail()

    def varint(self) -> int:
        """An unsigned integer of the serialization library (WL#14190): as many low 1-bits as bytes follow."""
        first = self.byte()
        extra = next((i for i in range(8) if not first >> i & 1), 8)
        if extra == 8:
            return self.u64()
        return (int.from_bytes(bytes((first,)) + self.take(extra), "little")) >> (extra + 1)

    def signed_varint(self) -> int:
        """A signed one: zigzag, so that the lowest bit is the sign."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def counted_text(self) -> str:
        """A byte of length, the text, and a zero byte."""
        text = self.take(self.byte())
        if self.byte() != 0:
            raise self.fail()
        return text.decode("utf-8", "replace")

    def index(self, size: int) -> int:
        """A length-encoded integer that must be below `size`."""
        value = self.length()
        if value >= size:
            raise self.fail()
        return value
