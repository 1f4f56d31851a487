"""The way out of each error: a test makes its situation, carries its hint out, and sees the pipeline continue.

    uv run python -m tests.remedies > docs/reference/errors.md

Such a test, in any folder, has the decorator `remedy` with the codes whose hints it carries out as a user would. The
page of errors names these tests, and `test_every_code.py` fails for a code that has none and no reason in `WITHOUT`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse_cdc.errors import Code


def remedy(*codes: Code[Any]) -> Callable[[Any], Any]:
    """Marks a test that raises errors of these codes on purpose, and follows the hint of each out of it."""
    mark: Callable[[Any], Any] = pytest.mark.remedy(*(code.label for code in codes))
    return mark
