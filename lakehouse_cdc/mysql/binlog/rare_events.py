"""The events that are too rare for the kernel: format descriptions, rotations, GTID sets, tags, statements, XA.

Each function takes an event's body: what is after the 19 bytes of its header, without the checksum. Sources: MySQL
source documentation, "Replication events"; WL#15294 (tagged GTIDs) and WL#14190 (serialization library), both checked
against what 9.7.4 writes.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from lakehouse_cdc.errors import codes
from lakehouse_cdc.images.binlog.words import GTID, HEADER
from lakehouse_cdc.model.gtid import GtidSet, Interval
from lakehouse_cdc.mysql.binlog.cursor import Cursor
from lakehouse_cdc.mysql.binlog.session_state import session_state
from lakehouse_cdc.schema.charsets import UNICODE, UNKNOWN, charset_of, decode
from lakehouse_cdc.sql.ddl.statement_session import StatementSession
from lakehouse_cdc.sql.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES

CRC_BYTES = 4
_OFF, _CRC32 = 0, 1
# bytes in front of the body of the events that the kernel looks into; 0: the server does not write them (any more)
_POST_HEADERS = {2: (13,), 19: (8,), **dict.fromkeys((23, 24, 25), (8, 0)), **dict.fromkeys((30, 31, 32), (10, 0))}
_XID = re.compile(r"X'([0-9A-Fa-f]*)',\s*X'([0-9A-Fa-f]*)',\s*(\d+)\s*$")
_MIXED = ("big5", "gbk", "gb18030", "sjis", "cp932")  # have characters that end in an ASCII byte
_AS_SHOWN = re.compile(rb"CREATE (OR REPLACE )?(TEMPORARY )?TABLE (IF NOT EXISTS )?[`\"][^\n]+ \(\n  [`\"]")
_OTHER_IN_SWE7 = frozenset(b"@[\\]^`{|}~")


@dataclass(frozen=True)
class Query:
    """A QUERY event.

    `sql_mode` are the session's modes as bits, None where they are not known. `readable`: every character of `text` is
    what the server read. Otherwise what could not be decoded is in it as U+FFFD or as backslash escapes of its
    bytes. Where it is not certain then where a quote ends, the text is cut off there, with a quote that does not end.
    """

    database: str
    text: str
    session: StatementSession
    readable: bool

    @property
    def sql_mode(self) -> int | None:
        """The session's modes as bits, None where they are not known."""
        return self.session.sql_mode

    @property
    def plain_quotes(self) -> bool:
        """Whether the session is known to have had neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES."""
        return self.sql_mode is not None and not self.sql_mode & (ANSI_QUOTES | NO_BACKSLASH_ESCAPES)


@dataclass(frozen=True)
class TaggedGtid:
    """A GTID event of MySQL 8.3 and later; `source` is `uuid` or `uuid:tag`, `commit_us` 0 where it is not given."""

    source: str
    number: int
    commit_us: int


@dataclass(frozen=True)
class Format:
    """What a file's first event says: how many bytes of checksum each event has, and which kind of server wrote it.

    `bare_doubles`: that server prints whole doubles in JSON without a fraction, `1` where MySQL 8.0 prints `1.0`.
    """

    checksum_bytes: int
    mariadb: bool
    bare_doubles: bool = False


def format_description(event: bytes, where: str) -> Format:
    """Read a format description (a whole event, with header).

    The algorithm is five bytes before the event's end, and the description itself always has a checksum field.
    Raises DefiniteError for a format whose fixed parts have other sizes than those read here.
    """
    body = Cursor(event[19:], where)
    version = body.u16()
    server = body.take(50).split(b"\0")[0].decode("ascii", "replace")
    body.skip(4)
    header = body.byte()
    sizes = body.take(max(body.left - 1 - CRC_BYTES, 0))
    algorithm = body.byte()
    fits = all(len(sizes) >= kind and sizes[kind - 1] in allowed for kind, allowed in _POST_HEADERS.items())
    if version != 4 or header != 19 or not fits or algorithm not in (_OFF, _CRC32):
        raise codes.BINLOG_EVENT_UNKNOWN.error(
            f"the binlog's format is not known: version {version} of server {server}, checksum algorithm {algorithm}",
            where=where,
            hint="MySQL 5.7 and later and MariaDB 10.5 and later are read",
        )
    return Format(CRC_BYTES if algorithm == _CRC32 else 0, "mariadb" in server.lower(), server.startswith("5."))


def rotation(body: bytes, where: str) -> tuple[str, int]:
    """The file that follows, and the position in it."""
    data = Cursor(body, where)
    position = data.u64()
    return data.rest().decode("utf-8", "replace"), position


def previous_gtids(body: bytes, where: str) -> GtidSet:
    """The GTIDs of all files before this one. With tags (8.3), 1 is in the first and last byte of the count."""
    data = Cursor(body, where)
    count = data.u64()
    tagged = count >> 56 == 1
    if tagged:
        count = count >> 8 & (1 << 48) - 1
    sources: dict[str, list[Interval]] = {}
    for _ in range(count):
        source = str(uuid.UUID(bytes=data.take(16)))
        if tagged:
            source = _tagged(source, data.take(data.varint()))
        sources.setdefault(source, []).extend((data.u64(), data.u64()) for _ in range(data.u64()))
    data.end()
    return GtidSet(sources)


def gtid_source(event: bytes) -> tuple[str, bytes]:
    """The source in a GTID event (whole, and long enough): its name, and the 16 bytes that stand for it."""
    if event[4] == GTID:
        source = event[HEADER + 1 : HEADER + 17]
        return str(uuid.UUID(bytes=source)), source
    domain, server = event[HEADER + 8 : HEADER + 12], event[5:9]
    name = f"{int.from_bytes(domain, 'little')}-{int.from_bytes(server, 'little')}"
    return name, (domain + server).ljust(16, b"\0")


def gtid_list(body: bytes, where: str) -> GtidSet:
    """MariaDB's GTID_LIST: the last GTID of each domain and server in all files before this one."""
    data = Cursor(body, where)
    count = data.u32() & (1 << 28) - 1  # flags are above
    sources: dict[str, list[Interval]] = {}
    for _ in range(count):
        domain, server = data.u32(), data.u32()
        sources[f"{domain}-{server}"] = [(1, data.u64() + 1)]
    if count:  # else it is padded
        data.end()
    return GtidSet(sources)


def _tagged(source: str, tag: bytes) -> str:
    return f"{source}:{tag.decode('ascii', 'replace')}" if tag else source


def tagged_gtid(body: bytes, where: str) -> TaggedGtid:
    """Fields in the order of their numbers, each with its number in front; those after the times are not needed."""
    data = Cursor(body, where)
    if data.varint() != 1 or data.varint() != len(body):
        raise data.fail()
    data.skip(1)  # the last field that a reader must know
    source, tag, number, commit = b"", b"", 0, 0
    while data.left:
        field = data.varint()
        if field == 1:
            source = bytes(data.varint() & 0xFF for _ in range(16))
        elif field == 2:
            number = data.signed_varint()
        elif field == 3:
            tag = data.take(data.varint())
        elif field == 6:
            commit = data.varint()
        elif field in (0, 4, 5):  # flags, two logical clocks
            data.varint()
        else:
            break
    if len(source) != 16 or number <= 0 or commit >> 56:
        raise data.fail()
    return TaggedGtid(_tagged(str(uuid.UUID(bytes=source)), tag), number, commit)


def xa_prepare(body: bytes, where: str) -> tuple[bool, str]:
    """Whether an XA_PREPARE event is the commit itself (XA COMMIT ... ONE PHASE), and the xid."""
    data = Cursor(body, where)
    one_phase = data.byte() != 0
    number, size, branch = data.u32(), data.u32(), data.u32()
    xid = f"{data.take(size).hex()},{data.take(branch).hex()},{number}"
    data.end()
    return one_phase, xid


def decided_xid(text: str, where: str) -> str:
    """The xid of an XA COMMIT or XA ROLLBACK, as both kinds of server log them."""
    match = _XID.search(text)
    if match is None:
        raise codes.BINLOG_DAMAGED.error(f"an XA statement without an xid: {text[:200]}", where=where)
    return f"{match[1].lower()},{match[2].lower()},{match[3]}"


def query(body: bytes, where: str, *, load: bool = False, alone: bool = True) -> Query:
    """A statement with its database, decoded from the session's character set.

    `load`: an EXECUTE_LOAD_QUERY event. `alone`: no BEGIN, and no GTID that stands for one, is before it.
    """
    data = Cursor(body, where)
    data.skip(8)  # thread, seconds
    size = data.byte()
    data.skip(2)  # error
    status = Cursor(data.take(data.u16()), where) if not load else _load_status(data, where)
    database = data.take(size).decode("utf-8", "replace")
    data.skip(1)
    state = session_state(status)
    text, readable = _decoded(data.rest(), state.collation, alone)
    return Query(database, text, StatementSession(state.sql_mode, state.time_zone), readable)


def _load_status(data: Cursor, where: str) -> Cursor:
    size = data.u16()
    data.skip(13)  # file, two positions in the text, what to do with duplicates
    return Cursor(data.take(size), where)


def _decoded(raw: bytes, collation: int | None, alone: bool) -> tuple[str, bool]:
    """A statement's text, and whether all of it is what the server read.

    It is in the client's character set, but for a CREATE TABLE ... SELECT, and a LIKE of a temporary table, in place of
    which the server writes what SHOW CREATE TABLE prints, in UTF-8. Certain signs of that are the transaction that it
    is part of, and MySQL 8.0's last words; without them a client may have written the same bytes.
    """
    charset = charset_of(collation) if collation is not None else None
    if raw.isascii():  # the same in every character set that a client can have, but for one
        other = next((i for i, byte in enumerate(raw) if byte in _OTHER_IN_SWE7), None) if charset == "swe7" else None
        return (raw.decode("ascii"), True) if other is None else (raw[:other].decode("ascii") + "`", False)
    try:
        unicode, whole = raw.decode("utf-8"), True
    except UnicodeDecodeError:
        unicode, whole = raw.decode("utf-8", "backslashreplace"), False
    if charset in ("utf8mb4", "utf8mb3"):
        return unicode, whole
    if whole and _AS_SHOWN.match(raw):
        return unicode, not alone or raw.endswith(b" START TRANSACTION")
    if charset == "binary":  # names that such a client gives are taken as UTF-8, and literals as bytes
        return unicode, False
    if charset is None or charset in UNICODE:
        return raw.decode("ascii", "backslashreplace"), False
    text = decode(charset, raw)
    whole = text.count(UNKNOWN) == raw.count(UNKNOWN.encode())
    return (text.partition(UNKNOWN)[0] + "`" if charset in _MIXED and not whole else text), whole
