"""TLS to the server, in the five modes of the mysql client, and what each protects from.

`preferred` (where the server offers it) and `required` protect from listeners. `verify-ca` also from a server that has
no certificate by one of our authorities, `verify-identity` also from one that has another server's. The authorities are
those of the system, or of a file.
"""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from lakehouse_cdc.errors import Code, ConfigError, codes
from lakehouse_cdc.mysql.connection.client_certificate import ClientCertificate

Tls = Literal["preferred", "required", "disabled", "verify-ca", "verify-identity"]
MODES: tuple[Tls, ...] = get_args(Tls)
VERIFYING: tuple[Tls, ...] = ("verify-ca", "verify-identity")
_PEM = "-----BEGIN CERTIFICATE-----"


def authorities(given: str) -> str:
    """The PEM text of a file with certificates of authorities, or that text itself; '' stays ''.

    Read once, where the pipeline starts, so that no other machine needs the file. Raises ConfigError.
    """
    return certificates(given, "tls_ca", codes.TLS_AUTHORITY_UNREADABLE)


def certificates(given: str, key: str, code: Code[ConfigError]) -> str:
    """The same for any key of the file; `code` is for what cannot be read."""
    if not given or _PEM in given:
        return given
    try:
        text = Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise code.error(f"{key} cannot be read: {given}", hint="a PEM file with certificates") from error
    if _PEM not in text:
        raise code.error(f"{key} holds no certificate: {given}", hint="a PEM file with certificates")
    return text


@cache
def context(mode: Tls, ca: str, client: ClientCertificate | None = None) -> ssl.SSLContext:
    """The context of a mode; `ca` as `authorities` gives it. Made once: loading the system's takes 60 ms."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = mode == "verify-identity"
    if mode not in VERIFYING:
        tls.verify_mode = ssl.CERT_NONE
    elif ca:
        try:
            tls.load_verify_locations(cadata=ca)
        except ssl.SSLError as error:
            raise codes.TLS_AUTHORITY_UNREADABLE.error(
                f"tls_ca holds no certificate that can be read: {error}"
            ) from error
    else:
        tls.load_default_certs()
    if client is not None:
        client.load_into(tls)
    return tls
