"""What is exposed is what the batches did: random runs, added up by Prometheus' own reader of its text."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.model.ddl_effect import Effect
from lakehouse_cdc.model.log_retention import Headroom
from lakehouse_cdc.model.offset import Identity, Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import Complete, FirstPass, Quarantined, Reading, TableState, Waiting
from lakehouse_cdc.telemetry.declaration import METRICS, MOST_TABLES, OTHERS, Kind
from lakehouse_cdc.telemetry.events import (
    BRONZE,
    SILVER,
    Batch,
    Begun,
    Ended,
    Event,
    Failed,
    Planned,
    Seen,
    SetAside,
    Verified,
)
from lakehouse_cdc.telemetry.measuring import Measuring
from lakehouse_cdc.telemetry.prometheus import Totals

pytestmark = pytest.mark.unit
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
Samples = dict[tuple[str, ...], float]


def text_of(totals: Totals) -> str:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(totals)
    return generate_latest(registry).decode()


def samples(totals: Totals) -> Samples:
    """(name, *values of the labels besides the pipeline's, by the labels' names): value."""
    return {
        (one.name, *(value for label, value in one.labels.items() if label != "pipeline")): one.value
        for family in text_string_to_metric_families(text_of(totals))
        for one in family.samples
    }


def exposed(*events: Event) -> Samples:
    measuring, totals = Measuring(), Totals("shop")
    for event in events:
        totals.add(measuring.of(event))
    return samples(totals)


def point(pos: int, file: str = "bin.000002", *, commit_ts: float = 0.0, gtid: str = "") -> SourcePoint:
    return SourcePoint(1, "uuid", file, pos, gtid=gtid, commit_ts=int(commit_ts * 1e6))


def of_bronze(version: int, rows: dict[str, dict[str, int]], at: SourcePoint | None = None) -> Batch:
    return Batch(BRONZE, version, version, at or point(100 * version), 0.3, 1000.0 + version, rows)


counts = st.dictionaries(
    st.sampled_from(["shop.a", "shop.b", "crm.c"]),
    st.dictionaries(st.sampled_from("srcudx"), st.integers(0, 1000), max_size=3),
    max_size=3,
)


@given(st.lists(counts, min_size=1, max_size=12), st.data())
def test_counters_add_up_to_what_the_batches_did(batches: list[dict[str, dict[str, int]]], data: st.DataObject) -> None:
    events: list[Event] = []
    silver, done = 0, list[tuple[int, int]]()
    for version, rows in enumerate(batches, 1):
        events.append(of_bronze(version, rows))
        if data.draw(st.booleans()):
            events.append(Batch(SILVER, len(done), version, point(1), 1.5, 2000.0, after=silver or None))
            done.append((silver, version))
            silver = version
    again = data.draw(st.lists(st.integers(0, len(events) - 1), max_size=3))
    for index in sorted(again, reverse=True):  # a batch that comes again at once
        events.insert(index + 1, events[index])
    found = exposed(*events)

    def total(parts: list[dict[str, dict[str, int]]]) -> Counter[str]:
        ops: Counter[str] = Counter()
        for part in parts:
            for of_table in part.values():
                ops.update({op: n for op, n in of_table.items() if op != "s"})
        return ops

    for layer, covered in ((BRONZE, batches), (SILVER, batches[:silver])):
        ops = total(covered)
        assert {op: found.get(("lakehouse_cdc_rows_total", layer, op), 0.0) for op in "rcudx"} == {
            op: ops[op] for op in "rcudx"
        }
    assert found["lakehouse_cdc_batches_total", BRONZE] == len(batches)
    assert found.get(("lakehouse_cdc_batches_total", SILVER), 0) == len(done)
    assert found["lakehouse_cdc_batch_duration_seconds_count", BRONZE] == len(batches)
    assert found["lakehouse_cdc_batch_duration_seconds_sum", BRONZE] == pytest.approx(0.3 * len(batches))
    assert found["lakehouse_cdc_batch_duration_seconds_bucket", BRONZE, "0.25"] == 0
    assert found["lakehouse_cdc_batch_duration_seconds_bucket", BRONZE, "0.5"] == len(batches)
    of_tables = {name: n for name, n in found.items() if name[0] == "lakehouse_cdc_table_rows_total"}
    assert sum(of_tables.values()) == sum(total(batches).values())


def test_every_metric_is_exposed_with_its_labels() -> None:
    states = {
        "shop.a": TableState("x", Complete(FirstPass())), "shop.b": TableState("x", Waiting()),
        "shop.c": TableState("x", Reading(FirstPass(), [5])), "shop.d": TableState("x", Quarantined("why", True)),
    }  # fmt: skip
    at = Position("bin.000002", 300)
    offset = Offset(1, Identity("u", "bin.000001", 0), at, at, tables=states, ddl=(Effect("alter", "shop.a"),))
    before, after = point(100, gtid=f"{UUID}:1-7"), point(300, commit_ts=990.0, gtid=f"{UUID}:1-9:11")
    sizes = (("bin.000002", 300),)
    found = exposed(
        Begun("1.0", "4.2.0", {BRONZE: (0, before), SILVER: (3, before)}),
        Planned(offset),
        Planned(offset),  # which was not committed, and comes again
        of_bronze(4, {"shop.a": {"s": 1, "c": 2}}, after),
        Seen(995.0, after, sizes, Headroom(60.0, "age")),
        Failed("CDC-1001"),
        SetAside(frozenset({"shop.c"})),
        Verified(SILVER, 900.0, {"shop.a": 3, "shop.b": 0}, 1),
    )
    assert found["lakehouse_cdc_lag_seconds", SILVER] == 995.0  # nothing is known of it but that it lacks rows
    del found["lakehouse_cdc_lag_seconds", SILVER]
    shown = {name: value for name, value in found.items() if "duration" not in name[0]}
    assert shown == {
        ("lakehouse_cdc_up",): 1, ("lakehouse_cdc_build_info", "4.2.0", "1.0"): 1,
        ("lakehouse_cdc_lag_seconds", BRONZE): 0, ("lakehouse_cdc_lag_bytes", BRONZE): 0,
        ("lakehouse_cdc_lag_bytes", SILVER): 200, ("lakehouse_cdc_caught_up_timestamp_seconds", BRONZE): 995,
        ("lakehouse_cdc_last_commit_timestamp_seconds", BRONZE): 990,
        ("lakehouse_cdc_last_batch_timestamp_seconds", BRONZE): 1004, ("lakehouse_cdc_batches_total", BRONZE): 1,
        ("lakehouse_cdc_rows_total", BRONZE, "c"): 2, ("lakehouse_cdc_table_rows_total", "shop.a"): 2,
        ("lakehouse_cdc_transactions_total",): 3, ("lakehouse_cdc_binlog_bytes_total",): 200,
        ("lakehouse_cdc_binlog_file_number",): 2, ("lakehouse_cdc_binlog_position_bytes",): 300,
        ("lakehouse_cdc_snapshot_tables", "done"): 1, ("lakehouse_cdc_snapshot_tables", "waiting"): 1,
        ("lakehouse_cdc_snapshot_tables", "reading"): 1, ("lakehouse_cdc_tables_quarantined",): 2,
        ("lakehouse_cdc_table_quarantined", "shop.d"): 1, ("lakehouse_cdc_table_quarantined", "shop.c"): 1,
        ("lakehouse_cdc_schema_changes_total", "alter"): 1, ("lakehouse_cdc_retries_total", "CDC-1001"): 1,
        ("lakehouse_cdc_binlog_retention_headroom_seconds",): 60,
        ("lakehouse_cdc_verify_timestamp_seconds", SILVER): 900, ("lakehouse_cdc_verify_differences", SILVER): 3,
        ("lakehouse_cdc_verify_tables_not_compared", SILVER): 1,
        ("lakehouse_cdc_verify_table_differences", SILVER, "shop.a"): 3,
    }  # fmt: skip
    exposed_names = {name for name, *_ in found}
    assert {one.prometheus for one in METRICS if one.kind is not Kind.HISTOGRAM} - exposed_names == set()


def test_silver_is_where_bronze_is_while_bronze_commits_no_rows() -> None:
    sizes, kept = (("bin.000002", 900),), Headroom(None)
    events: list[Event] = [
        of_bronze(1, {"shop.a": {"c": 1}}, point(500)),
        Batch(SILVER, 0, 1, point(500), 1.0, 1001.0),
        of_bronze(2, {}, point(900)),
        Seen(1010.0, point(900), sizes, kept),
    ]
    assert exposed(*events)["lakehouse_cdc_lag_bytes", SILVER] == 0
    later = [
        *events,
        of_bronze(3, {"shop.a": {"c": 1}}, point(1000)),
        Seen(1030.0, point(1000), [("bin.000002", 1000)], kept),
    ]
    found = exposed(*later)
    assert (found["lakehouse_cdc_lag_bytes", BRONZE], found["lakehouse_cdc_lag_bytes", SILVER]) == (0, 500)
    assert found["lakehouse_cdc_lag_seconds", SILVER] == 20.0  # since it was last seen to have everything
    assert math.isinf(found["lakehouse_cdc_binlog_retention_headroom_seconds",])


def test_a_file_that_the_server_no_longer_has() -> None:
    found = exposed(Seen(1000.0, point(500), [("bin.000007", 900)], Headroom(0.0)))
    assert math.isnan(found["lakehouse_cdc_lag_bytes", BRONZE])


def test_bytes_over_files() -> None:
    sizes = [("bin.000001", 1000), ("bin.000002", 700), ("bin.000003", 50)]
    begun = Begun("1", "4", {BRONZE: (0, point(900, "bin.000001"))})
    found = exposed(
        begun, Seen(1.0, point(900, "bin.000001"), sizes, Headroom(None)), of_bronze(1, {}, point(50, "bin.000003"))
    )
    assert found["lakehouse_cdc_binlog_bytes_total",] == 100 + 700 + 50


def test_names_of_tables_are_bounded_and_rows_are_not_lost() -> None:
    rows = {f"shop.t{n}": {"c": 1} for n in range(2000)}
    found = exposed(of_bronze(1, rows), of_bronze(2, rows), SetAside(frozenset(rows)))
    named = {name: n for name, n in found.items() if name[0] == "lakehouse_cdc_table_rows_total"}
    assert len(named) == MOST_TABLES + 1
    assert sum(named.values()) == 4000
    assert named["lakehouse_cdc_table_rows_total", OTHERS] == 2 * (2000 - MOST_TABLES)
    assert found["lakehouse_cdc_tables_quarantined",] == 2000
    assert len([name for name in found if name[0] == "lakehouse_cdc_table_quarantined"]) == MOST_TABLES + 1


def test_a_table_that_is_followed_again_has_0() -> None:
    found = exposed(SetAside(frozenset({"shop.a"})), SetAside(frozenset()), Ended())
    assert found["lakehouse_cdc_tables_quarantined",] == found["lakehouse_cdc_table_quarantined", "shop.a"] == 0
    assert found["lakehouse_cdc_up",] == 0


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_name_of_a_table_survives(name: str) -> None:
    table = f"shop.{name}"
    assert exposed(of_bronze(1, {table: {"c": 2}}))["lakehouse_cdc_table_rows_total", table] == 2


def test_counters_continue_and_gauges_do_not() -> None:
    totals = Totals("shop")
    for event in (of_bronze(1, {"shop.a": {"c": 2}}), Failed("CDC-1001")):
        totals.add(Measuring().of(event))
    text = text_of(totals)
    later = Totals("shop")
    later.continue_from(text)
    found = samples(later)
    assert found["lakehouse_cdc_rows_total", BRONZE, "c"] == 2
    assert found["lakehouse_cdc_batch_duration_seconds_sum", BRONZE] == 0.3
    assert found["lakehouse_cdc_batch_duration_seconds_bucket", BRONZE, "0.25"] == 0
    assert found["lakehouse_cdc_batch_duration_seconds_bucket", BRONZE, "10.0"] == 1
    assert not [name for name in found if "timestamp" in name[0] or "lag" in name[0]]
    later.add(Measuring().of(of_bronze(2, {"shop.a": {"c": 3}})))
    assert samples(later)["lakehouse_cdc_rows_total", BRONZE, "c"] == 5
    assert samples(later)["lakehouse_cdc_batch_duration_seconds_count", BRONZE] == 2
    other = Totals("crm")
    other.continue_from(text)
    assert samples(other) == {}
