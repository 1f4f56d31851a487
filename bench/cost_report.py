"""What `bench.cost` measured, for people: a table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.machine import told


def section(data: Mapping[str, Any]) -> str:
    """The part of RESULTS.md."""
    lines = [
        "## What it costs the source",
        "",
        f"`uv run python -m bench.cost --idle {data['idle']}`, {told(data['machine'])}.",
        "Counted by the server: `Questions`, `Connections`, `Innodb_rows_read`, `Bytes_sent`. Bytes are those of the",
        "values of all rows as text, or of the binlog. A first start reads the file of binlog that it begins in from",
        "its beginning.",
        "",
        "| run | s | rows | queries | connections | rows read | MB | MB sent | sent/byte |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for c in data["costs"]:
        share = f"{c['bytes_sent'] / c['size']:.2f}" if c["size"] else ""
        lines.append(
            f"| {c['what']} | {c['seconds']} | {c['rows']:,} | {c['queries']:,} | {c['connections']:,} "
            f"| {c['rows_read']:,} | {c['size'] / 1e6:.1f} | {c['bytes_sent'] / 1e6:.2f} | {share} |"
        )
    return "\n".join([*lines, ""])
