"""Errors of the client library as ours, by their number; those of a refused login with what may be the reason."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from lakehouse_cdc.errors import CdcError, codes
from lakehouse_cdc.mysql.connection.server_errors import server_error

_UNKNOWN_PLUGIN = "received unknown auth switch request"  # PyMySQL's words, without a number, for old passwords


@contextmanager
def translated(where: str, account: str = "") -> Iterator[None]:
    """Errors of the client library inside the block leave it as ours; `where` is the server or the table.

    `account` is that of the session, where it is known, for the hints that name a GRANT.
    """
    try:
        yield
    except (pymysql.err.Error, OSError) as error:
        raise translate(error, where, account) from error


def translate(error: BaseException, where: str, account: str = "") -> CdcError:
    """The error of ours for one of PyMySQL's or of a socket's."""
    cause = getattr(error, "original_exception", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return codes.TLS_FAILED.error(
            f"the server's certificate is not to be trusted: {cause.verify_message}", where=where,
            hint="give its authority as source.tls_ca; the name in source.url must be one of the certificate's",
        )  # fmt: skip
    if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
        return server_error(2005, str(error.args[-1]), where)  # no such host
    if isinstance(error, pymysql.err.Error):
        if error.args[:1] == (_UNKNOWN_PLUGIN,):
            return server_error(2059, _UNKNOWN_PLUGIN, where)
        number, text = (*error.args, "", "")[:2]
        if isinstance(number, int) and number:
            return server_error(number, str(text), where, account)
    # a socket's error, or InterfaceError(0, ""): used after it was closed
    return codes.CONNECTION_LOST.error(f"the connection was lost: {error or type(error).__name__}", where=where)
