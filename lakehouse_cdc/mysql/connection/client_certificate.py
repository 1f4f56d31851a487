"""The certificate by which the server knows the client (REQUIRE X509, ISSUER, SUBJECT), and its private key.

Both are PEM texts, so that a task on another machine needs no file. Python's `ssl` reads a key from a file alone: the
one it gets here is encrypted by a password that nobody else has, and is removed at once, so the key is on no disk.

Guards: tests/mysql/test_client_certificate.py.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from lakehouse_cdc.errors import ConfigError, codes


@dataclass(frozen=True)
class ClientCertificate:
    """PEM texts of the certificate, with those of the authorities between, and of its key; the key's password."""

    certificate: str = field(repr=False)
    key: str = field(repr=False)
    key_password: str = field(default="", repr=False)

    def load_into(self, tls: ssl.SSLContext) -> None:
        """Have a context show the certificate. Raises ConfigError where the two cannot be read, or do not match."""
        key = self._private_key()
        try:
            leaf = x509.load_pem_x509_certificates(self.certificate.encode())[0]
        except ValueError:
            raise _unreadable("tls_cert holds no certificate that can be read") from None
        if _public(leaf) != _public(key):
            raise _unreadable("tls_key is not the key of the certificate in tls_cert")
        once = secrets.token_urlsafe(32)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(once.encode()),
        )
        with tempfile.TemporaryDirectory(prefix="lakehouse-cdc-tls-") as folder:
            file = Path(folder) / "client.pem"
            file.write_bytes(self.certificate.encode() + b"\n" + encrypted)
            try:
                tls.load_cert_chain(file, password=once)
            except ssl.SSLError as error:
                raise _unreadable(f"the client's certificate cannot be used: {error.reason}") from None

    def _private_key(self) -> PrivateKeyTypes:
        try:
            return serialization.load_pem_private_key(self.key.encode(), self.key_password.encode() or None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            # what the library says of it may quote it
            reason = "its password (tls_key_password) may be wrong or missing, or it has one and needs none"
            raise _unreadable(f"tls_key holds no private key that can be read: {reason}") from None


def _public(holder: x509.Certificate | PrivateKeyTypes) -> bytes:
    return holder.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _unreadable(what: str) -> ConfigError:
    return codes.TLS_CERTIFICATE_UNREADABLE.error(what, where="source.tls_cert")
