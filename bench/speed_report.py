"""What `bench.speed` measured, for people: of each contest a table, and bars as an SVG."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench import bars
from bench.machine import told
from bench.tables import CUSTOMER, WIDE

# what the name of a contender means; ours have one prefix
_OURS = "ours"
_WORDS = {
    "ours": "reads the rows and decodes them to VARIANT, without Spark.",
    "ours, bronze": "a pipeline, into the Delta table of changes; the commit is included.",
    "ours, silver": "the same pipeline, into bronze and then into the typed Delta table.",
    "ours, catalog": "a pipeline, into the Delta table of changes in a catalog that keeps it in a folder.",
    "ours, catalog by Spark": "the same, written by Spark's writer, as where a catalog's tables are in no folder.",
    "ours, decoding alone": "reads the binlog and decodes it to VARIANT, without Spark and without writing.",
    "socket drain": "receives the same bytes from the server in Python, and looks at none of them.",
    "PyMySQL": "the client for Python: rows as tuples.",
    "Flink CDC": "reads and hands its rows to nothing, with poll.interval.ms=10 (its default is 500).",
    "Flink CDC as it comes": "the same with its default settings; one run.",
    "Debezium engine": "reads and hands its rows to nothing, with poll.interval.ms=10.",
    "Spark JDBC, Delta": "Spark's JDBC source on all cores, into a Delta table.",
    "mysql-binlog-connector-java": "the client that Flink CDC and Debezium read the binlog with: decoding alone.",
    "mysql-replication": "a client for Python: the first changes of the log as dictionaries.",
}
_WORKLOADS = {
    "`customer`": f"customer: the table of TPC-DS with that name, {len(CUSTOMER.columns)} columns.",
    "`wide`": f"wide: a table of {len(WIDE.columns)} columns, numbers and short texts.",
    "`text`": "text: a table of a number and a text of 1,024 characters.",
    "bulk": "bulk statements: each inserts, updates or deletes many rows.",
    "transactions": "Each transaction changes one row.",
}
_LOGS = ("bulk", "small")  # contests that are about changes, not rows


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
            *([] if contest["contest"] == "memory" else [f"![{contest['about']}](speed-{contest['contest']}.svg)", ""]),
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


def charts(data: Mapping[str, Any]) -> dict[str, str]:
    """The chart of each contest but that of memory, by its file's name without the ending."""
    return {f"speed-{c['contest']}": _chart(data, c) for c in data["contests"] if c["contest"] != "memory"}


def _chart(data: Mapping[str, Any], contest: Mapping[str, Any]) -> str:
    found = [
        bars.Bar(
            shown(one["name"]),
            one["rate"],
            f"{one['rate']:,}",
            bars.OURS if one["name"].startswith(_OURS) else bars.OTHERS,
        )
        for one in contest["contenders"]
    ]
    words = [f"{shown(one['name'])}: {_WORDS[one['name']]}" for one in contest["contenders"]]
    workload = [said for word, said in _WORKLOADS.items() if word in contest["about"]]
    names = " ".join(one["name"] for one in contest["contenders"])
    peers = {name: version for name, version in data["peers"].items() if name in names}
    versions = ", ".join(f"{name} {version}" for name, version in {"MySQL": data["server"], **peers}.items())
    measured = f"Measured: {told(data['machine'])}; {versions}; the server on the same machine; {_rounds(data)}."
    measure = f"{'changes' if contest['contest'] in _LOGS else 'rows'} per second; a longer bar is faster"
    title = contest["about"].replace("`", "")
    return bars.chart(title[0].upper() + title[1:], measure, found, [*workload, *words, measured])


def _rounds(data: Mapping[str, Any]) -> str:
    return f"medians of {data['rounds']} rounds" if data["rounds"] > 1 else "one round"


def shown(contender: str) -> str:
    """The name that a chart has: ours is the package's."""
    return contender.replace(_OURS, "lakehouse-cdc", 1)
