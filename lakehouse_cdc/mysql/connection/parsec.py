"""PARSEC, the login of MariaDB 11.6 and later that PyMySQL does not have: a signature by a key made from the password.

The password never leaves this process: the server has the public key alone, and both sides add random bytes to what is
signed. How many rounds the derivation takes is said by the server, which is not yet known to be the right one, so more
than `_MOST_DOUBLINGS` of them are refused: they would keep a processor busy for minutes.

Source: MariaDB's documentation, "Authentication Plugin - PARSEC"; guarded on a real server by
tests/mysql/test_mariadb_plugins.py.
"""

from __future__ import annotations

import hashlib
import os

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from lakehouse_cdc.errors import codes

SCRAMBLE_BYTES = 32
_LEAST_ROUNDS, _MOST_DOUBLINGS = 1024, 10
_KDF = b"P"  # PBKDF2


def signed(password: bytes, scramble: bytes, salt: bytes, own: bytes | None = None) -> bytes:
    """The answer to a server's scramble of 32 bytes: 32 random bytes (`own`, in tests), and a signature of both.

    `salt` is what the server sends as "ext-salt": the letter P, the binary logarithm of the rounds less 10, and the
    salt itself. Raises DefiniteError for another derivation.
    """
    if salt[:1] != _KDF or len(salt) < 3 or salt[1] > _MOST_DOUBLINGS or len(scramble) != SCRAMBLE_BYTES:
        raise codes.AUTHENTICATION_UNSUPPORTED.error("the server derives keys of parsec in a way that is not known")
    own = os.urandom(SCRAMBLE_BYTES) if own is None else own
    seed = hashlib.pbkdf2_hmac("sha512", password, salt[2:], _LEAST_ROUNDS << salt[1], dklen=32)
    return own + Ed25519PrivateKey.from_private_bytes(seed).sign(scramble + own)
