"""An ERR packet, to a statement or in the middle of its rows, as one of our two kinds of error."""

from __future__ import annotations

import struct

from lakehouse_cdc.errors import CdcError
from lakehouse_cdc.mysql.connection.server_errors import server_error


def refusal(payload: bytes, where: str) -> CdcError:
    """What the server says in an ERR packet: 0xff, number (2), '#' and SQL state (6), message."""
    (number,) = struct.unpack_from("<H", payload.ljust(3, b"\0"), 1)
    text = payload[3:].decode("utf-8", "replace")
    return server_error(number, text[6:] if text.startswith("#") else text, where)
