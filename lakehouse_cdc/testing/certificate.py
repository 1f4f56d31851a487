"""A certificate for servers that make none of their own in good time.

MySQL writes its own key once, with its data directory. MariaDB 11 makes a new RSA key at every start, in memory, which
takes it from 2 to 12 seconds; MariaDB 10 makes none, and then offers no TLS. An elliptic curve's key is made at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CERTIFICATE, KEY = "server-cert.pem", "server-key.pem"


def write_certificate(directory: Path) -> None:
    """Write a new key and a certificate signed by itself, valid for ten years, by the names that MySQL gives them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakehouse-cdc embedded server")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)  # its own authority
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / CERTIFICATE).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (directory / KEY).touch(mode=0o600)
    (directory / KEY).write_bytes(private)
