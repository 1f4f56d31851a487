"""The page: one HTML file without scripts and without anything from elsewhere, for light and dark screens.

Every text that comes from a source or a table is escaped, and a browser that reads the page loads nothing (its content
security policy says so), whatever a table is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from lakehouse_cdc.telemetry.report.history import OPS, READ, Buckets, Check, History, TableLine
from lakehouse_cdc.telemetry.report.svg import Chart, Columns, Line, Mark, moment
from lakehouse_cdc.telemetry.report.texts import count, duration, size

_BUCKETS = 160
_MOST_TABLES, _MOST_DDL, _MOST_CHECKS = 60, 100, 30
_LAYERS = ("bronze", "silver")
_STATES = ("done", "reading", "waiting", "dropped", "quarantined")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(history: History) -> str:
    """The whole page."""
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    title = escape(f"{history.pipeline}: report")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{style}</style></head>\n<body><main>{''.join(_body(history))}</main></body></html>\n"
    )


def _body(history: History) -> Iterator[str]:
    troubles = history.troubles
    pill = '<span class="pill bad">needs attention</span>' if troubles else '<span class="pill good">healthy</span>'
    yield f"<header><h1>{escape(history.pipeline)} {pill}</h1>"
    at = f" · bronze at <code>{escape(history.position)}</code>" if history.position else ""
    yield f"<p>{escape(history.source)}{at} · {moment(history.since)} to {moment(history.until)} UTC</p></header>"
    for text in troubles:
        yield f'<p class="note bad">{escape(text)}</p>'
    for text in history.notes:
        yield f'<p class="note">{escape(text)}</p>'
    yield from _tiles(history)
    if history.entries:
        yield from _charts(history)
    yield from _checks(history)
    yield from _tables(history)
    yield from _ddl(history)
    yield f"<footer>lakehouse-cdc {escape(history.version)} · all times are UTC</footer>"


def _tiles(history: History) -> Iterator[str]:
    lag = history.last(["bronze", "source"], lambda entry: entry.lag_seconds)
    of_silver = history.last(["silver"], lambda entry: entry.lag_seconds)
    kept = history.last(["bronze", "source"], lambda entry: entry.retention_seconds)
    batches = sum(entry.layer == "bronze" for entry in history.entries)
    left = sum(table.state == "quarantined" for table in history.tables)
    check = history.last_check("silver") or history.last_check("bronze")
    tiles = [
        ("Lag of bronze", "–" if lag is None else duration(lag), "when last measured", ""),
        ("Lag of silver", "–" if of_silver is None else duration(of_silver), "after its last batch", ""),
        ("Rows", count(sum(history.rows.values()) - history.rows["s"]), f"in {batches:,} batches of bronze", ""),
        ("Tables", f"{len(history.tables):,}", f"{left or 'none'} quarantined", "bad" * bool(left)),
        ("Binlog kept for", "–" if kept is None else duration(kept), "at least, of what is still needed", ""),
    ]
    if check is None:
        tiles.append(("Last verify", "never", "", ""))
    else:
        tiles.append(("Last verify", "equal" if check.verified else "not equal", moment(check.at), _style(check)))
    yield '<div class="tiles">'
    for name, value, below, style in tiles:
        yield f'<div class="tile"><h2>{name}</h2><b class="{style}">{escape(value)}</b>'
        yield f"<span>{escape(below)}</span></div>"
    yield "</div>"


def _charts(history: History) -> Iterator[str]:
    entries = history.entries
    margin = max(entries[-1].at - entries[0].at, 10.0) * 0.01
    buckets = Buckets(entries[0].at - margin, entries[-1].at + margin, _BUCKETS)
    frame = (buckets.since, buckets.until)

    def line(name: str, field: str, *layers: str) -> Line:
        return Line(name, name, buckets.greatest((e.at, getattr(e, field)) for e in entries if e.layer in layers))

    marks = [
        Mark(one.at, "ddl", f"{moment(one.at)}: {one.table}: {_cut(one.statement, 120)}")
        for one in history.ddl
        if one.at is not None
    ]
    marks += [Mark(one.at, f"check {_style(one)}", f"{moment(one.at)}: {_outcome(one)}") for one in history.checks]

    lags = [line("bronze", "lag_seconds", "bronze", "source"), line("silver", "lag_seconds", "silver")]
    chart = Chart("Lag over time", *frame, duration, lines=lags, marks=marks)
    yield _figure("Lag", "since all that the source committed is in the layer", _LAYERS, _LAYERS, chart)

    counts = [(e.at, e.ops) for e in entries if e.layer == "bronze"]
    changes = {op: name for op, name in OPS.items() if op != READ}
    yield _rates(counts, changes, "Changes a second", "into bronze, by what they are", buckets, marks)
    if history.rows[READ]:
        yield _rates(counts, {READ: OPS[READ]}, "Rows read a second", "of tables as they are", buckets, [])

    took = [line("bronze", "seconds", "bronze"), line("silver", "seconds", "silver")]
    chart = Chart("Seconds a batch", *frame, duration, lines=took)
    yield _figure("Seconds a batch", "the longest at each time", _LAYERS, _LAYERS, chart)

    lacking = line("bronze", "lag_bytes", "bronze", "source")
    if lacking.parts:
        chart = Chart("Bytes of binlog", *frame, size, lines=[lacking])
        yield _figure("Binlog that bronze lacks", "as seen every ten seconds", (), (), chart)


def _rates(
    counts: Iterable[tuple[float, Mapping[str, int]]],
    ops: Mapping[str, str],
    title: str,
    what: str,
    buckets: Buckets,
    marks: Sequence[Mark],
) -> str:
    names, styles = [*ops.values()], [f"op-{op}" for op in ops]
    columns = Columns(names, styles, buckets.spans, buckets.rates(counts, [*ops]))
    chart = Chart(title, buckets.since, buckets.until, count, columns=columns, marks=marks)
    return _figure(title, what, names, styles, chart)


def _figure(title: str, what: str, names: Sequence[str], styles: Sequence[str], chart: Chart) -> str:
    shown = [*zip(names, styles, strict=True)]
    shown += [("DDL", "ddl")] if any(mark.style == "ddl" for mark in chart.marks) else []
    shown += [("verify", "check")] if any("check" in mark.style for mark in chart.marks) else []
    keys = "".join(f'<span class="key"><i class="{style}"></i>{escape(name)}</span>' for name, style in shown)
    return f"<figure><figcaption><h2>{title}</h2><span>{what}</span>{keys}</figcaption>{chart.svg()}</figure>"


def _checks(history: History) -> Iterator[str]:
    checks = sorted(history.checks, key=lambda one: one.at, reverse=True)
    rows = (
        f"<tr><td>{moment(one.at)}</td><td>{escape(one.layer)}</td>"
        f'<td class="{_style(one)}">{escape(_outcome(one))}</td>'
        f'<td class="number">{one.rows:,}</td><td class="number">{one.tables:,}</td></tr>'
        for one in checks[:_MOST_CHECKS]
    )
    yield _section("Verify", ["at", "layer", "outcome", "rows", "tables"], rows, len(checks), _MOST_CHECKS)


def _style(one: Check) -> str:
    return "good" if one.verified else "bad"


def _outcome(one: Check) -> str:
    if one.verified:
        return f"{one.layer} equals the source"
    parts = [f"{n:,} rows of {table} differ" for table, n in sorted(one.differing.items())[:5]]
    parts += [f"{one.not_compared} tables could not be compared"] if one.not_compared else []
    return "; ".join(parts) or "what was compared is equal, and a table is quarantined"


def _tables(history: History) -> Iterator[str]:
    rows = history.rows_of_tables
    order = sorted(history.tables, key=lambda one: (one.state != "quarantined", -rows[one.name], one.name))
    most = max(rows.values(), default=0)
    states = [(state, n) for state in _STATES if (n := sum(one.state == state for one in order))]
    parts = "".join(f'<i class="state-{state}" style="width:{100 * n / len(order):.2f}%"></i>' for state, n in states)
    bar = f'<div class="bar">{parts}</div><p>{" · ".join(f"{n:,} {state}" for state, n in states)}</p>'
    lines = (_line(one, rows[one.name], most) for one in order[:_MOST_TABLES])
    yield _section("Tables", ["table", "state", "rows", ""], lines, len(order), _MOST_TABLES, bar)


def _line(one: TableLine, rows: int, most: int) -> str:
    reason = f'<div class="reason">{escape(one.reason)}</div>' if one.reason else ""
    style = "bad" if one.state == "quarantined" else ""
    share = f'<i style="width:{100 * rows / most:.1f}%"></i>' if rows else ""
    return (
        f'<tr><td><code>{escape(one.name)}</code>{reason}</td><td class="{style}">{escape(one.state)}</td>'
        f'<td class="number">{rows:,}</td><td class="share">{share}</td></tr>'
    )


def _ddl(history: History) -> Iterator[str]:
    rows = (
        f"<tr><td>{'–' if one.at is None else moment(one.at)}</td><td><code>{escape(one.table)}</code></td>"
        f"<td><code>{escape(_cut(one.statement, 400))}</code></td><td><code>{escape(one.place)}</code></td></tr>"
        for one in history.ddl[:_MOST_DDL]
    )
    names = ["in bronze at", "table", "statement, without constants", "position"]
    yield _section("Schema changes", names, rows, len(history.ddl), _MOST_DDL)


def _section(title: str, names: Sequence[str], rows: Iterable[str], all_of: int, most: int, above: str = "") -> str:
    """A table under its title, or that there is none."""
    if not all_of:
        return f"<section><h2>{title}</h2><p>none</p></section>"
    head = "".join(f'<th class="{"number" if name in ("rows", "tables") else ""}">{name}</th>' for name in names)
    more = f"<p>and {all_of - most:,} more</p>" if all_of > most else ""
    return (
        f'<section><h2>{title}</h2>{above}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}</section>"
    )


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"
