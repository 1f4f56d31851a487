"""Text that gets another character set is the same text: every character of each set that is on the list."""

from __future__ import annotations

from contextlib import closing

import pytest

from lakehouse_cdc.schema.charsets import CHARSETS, MAX_BYTES, UNICODE, UNKNOWN, WIDE, sequences, singles
from lakehouse_cdc.testing import VERSIONS, MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.mysql.census.columns import Spec
from tests.mysql.census.run import Census

TARGETS = [Spec(f"VARCHAR(64) CHARACTER SET {name}", ()) for name in ("utf8mb4", "utf16", "utf16le", "utf32")]
_LONGEST = 50  # characters in a value


def values(charset: str) -> tuple[str, ...]:
    """SQL literals that hold every byte, and every character of several bytes, of a set; of Unicode each 97th one."""
    if charset in UNICODE or charset in WIDE:
        most = 0x80 if charset == "ascii" else 0x110000 if MAX_BYTES.get(charset) == 4 else 0xD800
        codec = {"utf16": "utf-16-be", "ucs2": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
        encoded = [
            chr(code).encode(codec.get(charset, "utf-8")) for code in range(0, most, 1 if most < 0x10000 else 97)
            if not 0xD800 <= code < 0xE000
        ]  # fmt: skip
    else:
        many = charset in MAX_BYTES  # then a byte may be the first of several, or none
        single = [code for code in range(256) if not many or singles(charset)[code] not in (None, UNKNOWN)]
        encoded = [bytes([code]) for code in single]
        encoded += [found for found, _ in sequences(charset)] if MAX_BYTES.get(charset, 1) in (2, 3) else []
    texts = (b"".join(encoded[at : at + _LONGEST]) for at in range(0, len(encoded), _LONGEST))
    alone = () if len(encoded) > 256 else encoded
    return tuple(f"_{charset} X'{text.hex()}'" for text in (*texts, *alone))


CASES = [
    pytest.param(version, charset, id=f"{version}-{charset}")
    for version in VERSIONS
    for charset in CHARSETS
    if charset != "gb18030" or version not in MARIADB  # which does not have it
]


@pytest.mark.long
@pytest.mark.parametrize(("any_server", "charset"), CASES, indirect=["any_server"])
def test_every_character(any_server: MySqlServer, any_database: str, charset: str) -> None:
    source = Spec(f"VARCHAR(64) CHARACTER SET {charset}", values(charset))
    with closing(Census(any_server, any_database)) as census:
        found = list(census.pairs(source, TARGETS))
    assert not [one.wrong for one in found if one.wrong]
    assert "proven" in {one.verdict for one in found}
