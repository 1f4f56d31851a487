"""A crash at a named call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse_cdc.errors import codes

Patch = Callable[[pytest.MonkeyPatch, int], None]


def amid(module: Any, name: str, *, after: bool = False, only: str = "") -> Patch:
    """Die before or after a call of that function; `only` one for a table of that name."""

    def install(patch: pytest.MonkeyPatch, number: int = 0) -> None:
        whole = getattr(module, name)

        def dying(*arguments: Any, **more: Any) -> Any:
            if only and not any(getattr(argument, "name", "") == only for argument in arguments):
                return whole(*arguments, **more)
            if after:
                whole(*arguments, **more)
            raise codes.INVARIANT_BROKEN.error(f"amid step {number}")

        patch.setattr(module, name, dying)

    return install
