"""MySQL's character sets: how wide they are, which collations they have, and what each of their characters is.

Snapshot and binlog both deliver text in the column's own character set, so one reading of its bytes serves both, and
it must be the server's: text is what `CONVERT(... USING utf8mb4)` gives. Python knows most of these character sets by
another name and differs in a few characters; the differences are here as data, found by asking an 8.0 server for
every byte sequence (a test asks again). What a server stores without knowing a character for it is `?`, as for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

UNKNOWN = "?"
# bytes of the longest character
MAX_BYTES = {
    **dict.fromkeys(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), 4),
    **dict.fromkeys(("utf8mb3", "utf8", "ujis", "eucjpms"), 3),
    **dict.fromkeys(("ucs2", "big5", "sjis", "cp932", "euckr", "gb2312", "gbk"), 2),
}
UNICODE = ("utf8mb4", "utf8mb3", "utf8", "ascii")  # bytes are UTF-8 as they are
WIDE = {"utf16": 2, "ucs2": 2, "utf16le": 2, "utf32": 4}  # bytes of a unit
_CODECS = {
    "latin1": "cp1252", "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "greek": "iso8859-7",
    "hebrew": "iso8859-8", "hp8": "hp-roman8", "koi8r": "koi8-r", "koi8u": "koi8-u", "macce": "mac_latin2",
    "macroman": "mac_roman", "tis620": "tis-620", "ujis": "euc_jp", "eucjpms": "euc_jp", "sjis": "shift_jis",
    "euckr": "cp949", "armscii8": "latin1", "dec8": "latin1", "geostd8": "latin1", "keybcs2": "latin1",
    "swe7": "ascii", **{name: name for name in ("cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866")},
    **{name: name for name in ("big5", "cp932", "gb2312", "gbk", "gb18030")},
}  # fmt: skip
CHARSETS = (*UNICODE, *WIDE, *_CODECS)

# from a byte on: characters that differ from the codec's
_RUNS = {
    "armscii8": [
        (0xA1, "\u2741§։)(»«—.՝,-՟…՜՛՞" + "".join(chr(0x531 + i) + chr(0x561 + i) for i in range(38)) + "’'"),
    ],
    "cp1256": [(code, UNKNOWN) for code in (0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF)],
    "cp866": [(0xFC, "ⁿ²")],
    "dec8": [
        *((code, UNKNOWN) for code in (0xA4, 0xA6, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF)),
        (0xA8, "¤"), (0xAC, UNKNOWN * 4), (0xD7, "Œ"), (0xDD, "Ÿ"), (0xF7, "œ"), (0xFD, "ÿ"),
    ],
    "geostd8": [
        (0x80, "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"), (0xC0, "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ"),
        (0xE6, UNKNOWN * 23 + "№" + UNKNOWN * 2),
    ],
    "greek": [(0xA1, "\u02bd\u02bc"), (0xA4, UNKNOWN * 2), (0xAA, UNKNOWN)],
    "hebrew": [(0xAF, "\u203e")],
    "keybcs2": [
        (0x80, "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"),
        (0xE0, "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"),
    ],
    "koi8u": [(0x95, "•")],
    "latin1": [(code, chr(code)) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)],
    "swe7": [(0x40, "É"), (0x5B, "ÄÖÅÜ"), (0x60, "é"), (0x7B, "äöåü?")],
    "tis620": [(0x80, "".join(map(chr, range(0x80, 0xA0))) + "\ufffd"), (0xDB, "\ufffd" * 4), (0xFC, "\ufffd" * 4)],
}  # fmt: skip
_PAIRS = {  # several bytes: characters that differ from the codec's
    "big5": {
        **dict.fromkeys((0xA15A, 0xA1C3, 0xA1C5, 0xA1FE, 0xA240, 0xA2CC, 0xA2CE), "\ufffd"),
        **dict(zip(range(0xF9D6, 0xF9DD), "碁銹裏墻恒粧嫺", strict=True)),
    },
    "eucjpms": dict(
        zip((0xA1C1, 0xA1C2, 0xA1DD, 0xA1F1, 0xA1F2, 0xA2CC, 0x8FA2B7, 0x8FA2C3), "～∥－￠￡￢～￤", strict=True)
    ),
    "gb18030": {0xA8BC: "\u1e3f", 0x8135F437: "\ue7c7"},
    "sjis": {0x815F: "\\"},
    "ujis": {0xA1C0: "\\"},
}
# rows that eucjpms adds after 0x8F: IBM's characters from 0xF3F3 on
_IBM = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸"
    "淲瀨\ufa15\ufa16甁皂皞\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇\ufa22譿"
    "賴赶\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b\ufa2c馞髙魲\ufa2d黑"
)
# ids of collations, by character set; they never change between versions
COLLATIONS: dict[str, tuple[int | tuple[int, int], ...]] = {
    "armscii8": (32, 64), "ascii": (11, 65), "big5": (1, 84), "binary": (63,), "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, (50, 52)), "cp1256": (57, 67), "cp1257": (29, 58, 59), "cp850": (4, 80), "cp852": (40, 81),
    "cp866": (36, 68), "cp932": (95, 96), "dec8": (3, 69), "eucjpms": (97, 98), "euckr": (19, 85),
    "gb18030": ((248, 250),), "gb2312": (24, 86), "gbk": (28, 87), "geostd8": (92, 93), "greek": (25, 70),
    "hebrew": (16, 71), "hp8": (6, 72), "keybcs2": (37, 73), "koi8r": (7, 74), "koi8u": (22, 75),
    "latin1": (5, 8, 15, 31, (47, 49), 94), "latin2": (2, 9, 21, 27, 77), "latin5": (30, 78),
    "latin7": (20, 41, 42, 79), "macce": (38, 43), "macroman": (39, 53), "sjis": (13, 88), "swe7": (10, 82),
    "tis620": (18, 89), "ucs2": (35, 90, (128, 151), 159), "ujis": (12, 91), "utf16": (54, 55, (101, 124)),
    "utf16le": (56, 62), "utf32": (60, 61, (160, 183)), "utf8mb3": (33, 76, 83, (192, 215), 223),
    "utf8mb4": (45, 46, (224, 247), (255, 323)),
}  # fmt: skip
_CHARSET_OF = {
    number: charset
    for charset, parts in COLLATIONS.items()
    for part in parts
    for number in (range(part[0], part[1] + 1) if isinstance(part, tuple) else (part,))
}
# MariaDB's own, in blocks (as 10.11 and 11.8 list them); those with NO PAD lie 1024 above their twins
_MARIADB = {
    **dict.fromkeys(range(576, 608), "utf8mb3"), **dict.fromkeys(range(608, 640), "utf8mb4"),
    **dict.fromkeys(range(640, 672), "ucs2"), **dict.fromkeys(range(672, 704), "utf16"),
    **dict.fromkeys(range(736, 768), "utf32"), **dict.fromkeys(range(2048, 2304), "utf8mb3"),
    **dict.fromkeys(range(2304, 2560), "utf8mb4"), **dict.fromkeys(range(2560, 2816), "ucs2"),
    **dict.fromkeys(range(2816, 3072), "utf16"), **dict.fromkeys(range(3072, 3328), "utf32"),
}  # fmt: skip
_NO_PAD = 1024


def charset_of(collation: int) -> str | None:
    """The character set of a collation, by its number; None for one that is not known."""
    if _NO_PAD <= collation < 2 * _NO_PAD:
        collation -= _NO_PAD
    return _CHARSET_OF.get(collation) or _MARIADB.get(collation)


@cache
def singles(charset: str) -> tuple[str | None, ...]:
    """The character of each byte; None for one that more bytes must follow."""
    table: list[str | None] = []
    leads = charset in MAX_BYTES
    for code in range(256):
        text = _decoded(bytes([code]), _CODECS[charset])
        table.append(text or (None if leads and code > 0x80 else UNKNOWN))
    if charset in ("cp932", "big5", "gbk"):  # where the codec has characters that no column can hold
        table[0x80] = UNKNOWN
    if charset == "cp932":
        table[0xA0], table[0xFD:] = UNKNOWN, [UNKNOWN] * 3
    for first, characters in _RUNS.get(charset, ()):
        table[first : first + len(characters)] = characters
    return tuple(table)


def character(charset: str, code: bytes) -> str | None:
    """The character that these bytes stand for, None where they stand for none."""
    own = _own(charset).get(code)
    return own or _decoded(code, _CODECS[charset])


def sequences(charset: str) -> Iterator[tuple[bytes, str]]:
    """Every character of two and three bytes."""
    prefixes = [b"", b"\x8f"] if MAX_BYTES[charset] == 3 else [b""]
    for prefix in prefixes:
        for lead in range(0x80, 256):
            if singles(charset)[lead] is not None:
                continue
            for trail in range(0x21, 256):
                code = prefix + bytes([lead, trail])
                if (text := character(charset, code)) is not None:
                    yield code, text


def decode(charset: str, data: bytes) -> str:
    """Text of any character set; `?` for what is none."""
    if charset in UNICODE or charset in WIDE:
        codec = {"utf16": "utf-16-be", "ucs2": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}
        return data.decode(codec.get(charset, "utf-8"), "replace").replace("\ufffd", UNKNOWN)
    table = singles(charset)
    if charset not in MAX_BYTES:
        return "".join(table[byte] or UNKNOWN for byte in data)
    characters: list[str] = []
    at = 0
    while at < len(data):
        size = next((n for n in (1, 2, 3, 4) if _whole(charset, data[at : at + n])), 1)
        characters.append((table[data[at]] if size == 1 else character(charset, data[at : at + size])) or UNKNOWN)
        at += size
    return "".join(characters)


def _whole(charset: str, code: bytes) -> bool:
    return singles(charset)[code[0]] is not None if len(code) == 1 else character(charset, code) is not None


@cache
def _own(charset: str) -> dict[bytes, str]:
    """Characters of several bytes that the codec lacks, or has otherwise."""
    pairs = {code.to_bytes((code.bit_length() + 7) // 8, "big"): text for code, text in _PAIRS.get(charset, {}).items()}
    return pairs | _rows(charset)


def _decoded(code: bytes, codec: str) -> str | None:
    try:
        text = code.decode(codec)
    except UnicodeDecodeError:
        return None
    return text if len(text) == 1 else None


def _rows(charset: str) -> dict[bytes, str]:
    """The rows of 94 that the codec lacks: user-defined ones (U+E000 on), and in eucjpms those of NEC and IBM."""
    if charset not in ("ujis", "eucjpms"):
        return {}
    characters: dict[bytes, str] = {}
    for half, prefix in enumerate((b"", b"\x8f")):
        for row in range(10):
            for cell in range(94):
                number = 0xE000 + (half * 10 + row) * 94 + cell
                characters[prefix + bytes([0xF5 + row, 0xA1 + cell])] = chr(number)
    if charset == "eucjpms":
        for cell in range(94):
            text = _decoded(bytes([0x87, 0x40 + cell + (cell >= 63)]), "cp932")
            if text is not None:
                characters[bytes([0xAD, 0xA1 + cell])] = text
        for i, text in enumerate(_IBM):
            place = 0xF3 * 94 + 82 + i
            characters[bytes([0x8F, place // 94, 0xA1 + place % 94])] = text
    return characters
