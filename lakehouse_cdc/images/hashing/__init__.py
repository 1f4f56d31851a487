"""Checksums of events, SHA-256 and HMAC, and the masks that are made of them."""
