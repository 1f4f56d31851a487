"""What `bench.speed` measured, for people: a table of each contest, and bars of all as an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told
from bench.svg import framed, text

_WIDTH, _LEFT, _BAR, _LINE = 760, 230, 380, 20
_OURS, _OTHERS = "#1f6feb", "#8b949e"


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    versions = ", ".join(f"{name} {version}" for name, version in data["peers"].items())
    lines = [
        "## Reading MySQL",
        "",
        f"`uv run python -m bench.speed`, {told(data['machine'])};",
        f"on the same machine MySQL {data['server']}; {versions}.",
        "Flink CDC, Debezium and mysql-binlog-connector-java hand their rows to nothing, the first two with",
        "`poll.interval.ms=10` but where it says as it comes. Everyone runs once in a round, each in processes of its",
        f"own; medians of {data['rounds']} rounds. Memory is the peak of all processes of a run together, of Spark's",
        "Python workers, and of all else, its driver: the JVM has a heap of 2 GB, of which it frees little before it",
        "is full. The server has a buffer pool and a redo log of 1 GiB. A first start reads the file of binlog that",
        "it begins in from its beginning, so all but one begin with a new one. What arrived with us is compared with",
        "the source after each run.",
        "",
    ]
    for contest in data["contests"]:
        lines += [
            "",
            f"**{contest['about']}**",
            "",
            "| | rows/s | s | peak MB | workers MB | driver MB |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        lines += [_line(contender) for contender in contest["contenders"]]
        lines += ["", *(_said(bar) for bar in contest["bars"])]
    return "\n".join([*lines, ""])


def _line(contender: Mapping[str, Any]) -> str:
    parts = [f"{contender[part]:,}" if contender["workers_mb"] else "" for part in ("workers_mb", "driver_mb")]
    said = (contender["name"], f"{contender['rate']:,}", contender["seconds"], f"{contender['peak_mb']:,}", *parts)
    return f"| {' | '.join(map(str, said))} |"


def _said(bar: Mapping[str, Any]) -> str:
    return f"- {bar['ours']} / {bar['theirs']}: **{bar['ratio']}** (at least {bar['least']}, aim {bar['aim']})"


def chart(data: Mapping[str, Any]) -> str:
    """Rows a second, a group of bars for each contest, each group by its own scale."""
    parts, y = [], 24.0
    for contest in (one for one in data["contests"] if one["contest"] != "memory"):
        parts.append(text(12, y, f"{contest['about'].replace('`', '')}, rows/s", size=13))
        y += 8
        most = max(one["rate"] for one in contest["contenders"])
        for one in contest["contenders"]:
            width = max(1, round(_BAR * one["rate"] / most))
            colour = _OURS if one["name"].startswith("ours") else _OTHERS
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_LINE - 6}" fill="{colour}"/>')
            parts.append(text(_LEFT - 8, y + 11, one["name"], anchor="end"))
            parts.append(text(_LEFT + width + 6, y + 11, f"{one['rate']:,}"))
            y += _LINE
        y += 26
    return framed(_WIDTH, y - 10, parts)
