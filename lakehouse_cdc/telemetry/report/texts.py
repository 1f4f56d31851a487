"""Numbers as people read them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """`850 ms`, `12.5 s`, `4.2 min`, `3.1 h`, `9 days`."""
    if seconds and seconds < 1:
        return f"{seconds * 1000:,.0f} ms"
    for unit, size, most in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{_short(seconds / size)} {unit}"
    return f"{_short(seconds / 86_400)} days"


def count(value: float) -> str:
    """`850`, `12.5 k`, `3.1 M`."""
    for unit, of, least in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e3, 1e4)):
        if value >= least:
            return f"{_short(value / of)} {unit}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def size(value: float) -> str:
    """`850 B`, `12.5 kB`, `3.1 MB`."""
    for unit, of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= of:
            return f"{_short(value / of)} {unit}"
    return f"{value:,.0f} B"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
