"""Certificates, made for the occasion."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _self_signed(folder: Path, name: str) -> tuple[Path, Path]:
    """(certificate, private key) of 127.0.0.1, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / f"{name}.pem", folder / f"{name}.key"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return public, private


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """The files of a certificate for 127.0.0.1 and of its private key."""
    return _self_signed(tmp_path, "repository")


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """The file of a certificate that has signed nothing else."""
    return _self_signed(tmp_path, "stranger")[0]
