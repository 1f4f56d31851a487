"""Compiled kernels: bytes of the server to VARIANT images; rows never become Python objects."""
