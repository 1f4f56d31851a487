"""Prints the page of errors."""

from __future__ import annotations

from lakehouse_cdc.errors.reference import markdown
from tests.remedies.page import tests

print(markdown(tests()), end="")
