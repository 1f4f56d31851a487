"""The page of a report: nothing of a source is markup in it, nothing is loaded, and it sums up what there was."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timezone
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.lake.readers.choice import ReaderOnDemand
from lakehouse_cdc.model.seq import Rank, Seq
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.verification import Verification
from lakehouse_cdc.ops.run_history import gathered
from lakehouse_cdc.ops.verify_history import VerifyWatch, note, read
from lakehouse_cdc.telemetry.report.history import OPS, Buckets, Check, Ddl, Entry, History, TableLine
from lakehouse_cdc.telemetry.report.page import html
from lakehouse_cdc.telemetry.report.svg import times
from lakehouse_cdc.telemetry.report.texts import count, duration, size

pytestmark = pytest.mark.unit
AT = 1_700_000_000.0
_EVIL = "<script>alert('x')</script>\"&]]><img src=http://x onerror=y>"


class Tags(HTMLParser):
    """What tags a page has, and which attributes, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        if tag not in ("meta", "line", "rect", "path", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("line", "rect", "path"):
            return
        if tag != "circle":
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def a_history(text: str, entries: list[Entry] | None = None) -> History:
    place = (1, "bin.000001", 4)
    made = [
        Entry(AT + n, "bronze" if n % 2 else "silver", place, 1.5, 0.5 * n, 100, 7200.0, {"c": n, "s": 1}, {text: n})
        for n in range(20)
    ]
    return History(
        text, text, "1.0", AT, AT + 100, text, made if entries is None else entries,
        [TableLine(text, "quarantined", text), TableLine("shop.b", "done")], [Ddl(AT + 5, text, text, text)],
        [Check(AT + 7, "silver", False, 10, 2, {text: 3}, 1), Check(AT + 9, "bronze", True, 10, 2, {}, 0)],
        text, [text],
    )  # fmt: skip


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_no_text_is_markup(text: str) -> None:
    plain, page = Tags(html(a_history("x"))), Tags(html(a_history(text)))
    assert page.tags == plain.tags
    assert page.open == []


def test_nothing_is_loaded_and_nothing_is_run() -> None:
    page = html(a_history(_EVIL))
    found = Tags(page)
    assert not {"script", "img", "link", "iframe", "object", "a", "base", "form"} & found.tags.keys()
    assert not {"src", "href", "srcset", "action", "onerror", "onload"} & found.attributes
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page
    assert _EVIL in "".join(found.texts)


def test_a_pipeline_that_has_not_run() -> None:
    page = html(History("shop", "db:3306", "1.0", AT, AT + 1, notes=["no batches"]))
    assert "healthy" in page
    assert "no batches" in page


@given(st.integers(0, 10**6), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10**6)), min_size=1, max_size=50))
def test_buckets_lose_nothing(span: int, counts: list[tuple[float, int]]) -> None:
    buckets = Buckets(AT, AT + span, 40)
    rates = buckets.rates(((AT + part * span, {"c": n}) for part, n in counts), ["r", "c"])
    assert sum(value * buckets.seconds for _, value in rates) == pytest.approx(sum(n for _, n in counts))
    lines = buckets.greatest((AT + part * span, float(n)) for part, n in counts)
    assert max(value for line in lines for _, value in line) == max(n for _, n in counts)
    points = [at for line in lines for at, _ in line]
    assert points == sorted(set(points))


def test_a_line_ends_where_nothing_ran() -> None:
    lines = Buckets(AT, AT + 36_000, 100).greatest([(AT, 1.0), (AT + 600, 2.0), (AT + 30_000, 3.0), (AT + 5, None)])
    assert [[value for _, value in line] for line in lines] == [[1.0, 2.0], [3.0]]


@pytest.mark.parametrize("span", [10, 100, 3600, 86_400, 7 * 86_400, 400 * 86_400])
def test_there_are_some_round_times_on_the_axis(span: float) -> None:
    shown = times(AT, AT + span)
    assert 2 <= len(shown) <= 10
    assert len({text for _, text in shown}) == len(shown)


def test_numbers_are_short() -> None:
    assert [duration(n) for n in (0, 0.05, 12.54, 252, 11_160, 777_600)] == [
        "0 s", "50 ms", "12.5 s", "4.2 min", "3.1 h", "9 days",
    ]  # fmt: skip
    assert [count(n) for n in (0, 0.5, 1234, 12_500, 3_100_000, 2e9)] == ["0", "0.5", "1,234", "12.5 k", "3.1 M", "2 G"]
    assert [size(n) for n in (12, 12_500, 3_100_000, 5e9)] == ["12 B", "12.5 kB", "3.1 MB", "5 GB"]
    assert [*OPS] == ["r", "c", "u", "d"]


# ---------------------------------------------------------------- gathered from tables


PLACE = pa.struct([("epoch", pa.int32()), ("server_uuid", pa.string()), ("file", pa.string()), ("pos", pa.int64())])


def metrics_table(layout: Layout, rows: list[dict[str, Any]]) -> None:
    counts = pa.map_(pa.string(), pa.int64())
    schema = pa.schema([
        ("at", pa.timestamp("us", "UTC")), ("layer", pa.string()), ("position", PLACE), ("seconds", pa.float64()),
        ("lag_seconds", pa.float64()), ("ops", counts), ("tables", counts),
    ])  # fmt: skip
    write_deltalake(str(layout.metrics.path), pa.Table.from_pylist(rows, schema))


def place(pos: int) -> dict[str, Any]:
    return {"epoch": 1, "server_uuid": "u", "file": "bin.000001", "pos": pos}


def seq_at(pos: int) -> Decimal:
    return Decimal(Seq(1, 1, pos, Rank.EVENT, 0).pack())


def no_spark() -> Any:
    raise AssertionError("Spark was started")


def gather(layout: Layout, folder: Path) -> History:
    return gathered(
        layout, ReaderOnDemand(no_spark), folder, str(folder / "schemas"), str(folder / "bronze"), "db:3306", days=1
    )


def test_a_report_needs_no_spark(tmp_path: Path) -> None:
    layout, now = Layout("shop", "bronze", "silver", path=str(tmp_path / "lake")), time()

    def row(ago: float, pos: int, n: int) -> dict[str, Any]:
        at = datetime.fromtimestamp(now - ago, timezone.utc)
        return {"at": at, "layer": "bronze", "position": place(pos), "seconds": 1.0, "lag_seconds": 0.5,
                "ops": [("c", n)], "tables": [("shop.a", n)]}  # fmt: skip

    metrics_table(layout, [row(90_000, 10, 9), row(300, 100, 2), row(200, 200, 3), row(100, 300, 4)])
    statement = "ALTER TABLE a ADD b VARCHAR(20) DEFAULT 'Mr Secret'"
    ddl = [
        {"source_table": "shop.a", "seq": seq_at(50), "position": place(50), "statement": None},
        {"source_table": "shop.a", "seq": seq_at(150), "position": place(150), "statement": statement},
    ]
    schema = pa.schema([
        ("source_table", pa.string()), ("seq", pa.decimal128(38, 0)), ("position", PLACE), ("statement", pa.string()),
    ])  # fmt: skip
    write_deltalake(str(layout.schemas.path), pa.Table.from_pylist(ddl, schema))
    state = tmp_path / "state"
    state.mkdir()
    note(state, Verification(now - 50, "silver", 10, 0.1, {"shop.a": 2}))
    found = gather(layout, state)
    assert found.rows == {"c": 9}
    assert found.rows_of_tables == {"shop.a": 9}
    assert [(one.statement, one.place) for one in found.ddl] == [
        ("ALTER TABLE a ADD b VARCHAR(20) DEFAULT '...'", "bin.000001:150")
    ]
    assert found.ddl[0].at == pytest.approx(now - 200, abs=0.01)
    assert found.troubles == ["by the last verify, silver differs from the source in 2 rows"]
    assert "Mr Secret" not in html(found)


def test_a_pipeline_of_which_nothing_is_there(tmp_path: Path) -> None:
    found = gather(Layout("shop", "bronze", path=str(tmp_path / "lake")), tmp_path)
    assert found.entries == []
    assert "target.metrics" in found.notes[0]
    assert "healthy" in html(found)


# ---------------------------------------------------------------- what verify found


def test_verifications_are_kept_and_noticed(tmp_path: Path) -> None:
    now, watch = [0.0], VerifyWatch(tmp_path, clock=lambda: now[0])
    assert watch.tick() == []
    for n in range(3):
        note(tmp_path, Verification(100.0 + n, "bronze" if n == 1 else "silver", n, 0.1, {"shop.a": 0}))
    assert watch.tick() == []  # not so soon
    now[0] = 31.0
    assert sorted(one.at for one in watch.tick()) == [101.0, 102.0]
    now[0] = 62.0
    assert watch.tick() == []


def test_a_line_that_is_none_is_left_out_and_old_ones_go(tmp_path: Path) -> None:
    line = json.dumps({"at": 1.0, "layer": "silver", "rows": 1, "seconds": 0.1})
    (tmp_path / "verified.jsonl").write_text(f"garbage\n{line}\n" + "{}\n" * 2_000)
    assert [one.at for one in read(tmp_path)] == [1.0]
    note(tmp_path, Verification(5.0, "silver", 1, 0.1, {"shop.a": 0}))
    assert [one.at for one in read(tmp_path)] == [5.0]
    assert len((tmp_path / "verified.jsonl").read_text().splitlines()) == 1_000


def test_a_note_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in its way")
    note(tmp_path / "file", Verification(5.0, "silver", 1, 0.1, {"shop.a": 0}))
    assert "cannot write" in caplog.text
    assert read(tmp_path / "file") == []
