"""What a task makes of records: each is a row, or a letter with its reason, or says nothing; nothing else is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lakehouse_cdc.messages.reading import Reason
from lakehouse_cdc.model.seq import unpack
from lakehouse_cdc.model.variant import decode
from lakehouse_cdc.topics.declared import Declarations
from lakehouse_cdc.topics.order import Mark, Progress
from lakehouse_cdc.topics.parsing import AGAIN, LATE, NEW, Parsing
from tests.support.topic_messages import BROKEN, MAX_BYTES, Message, debezium, mixed, records

PARSING = Parsing("debezium-json", Declarations({}, {}), "position", MAX_BYTES, 1, 0, Progress())
CANAL = replace(PARSING, format="canal-json", order="arrival")


def lines(parsing: Parsing, *batches: list[Message]) -> list[dict[str, Any]]:
    """The lines of one task; each batch has the next offsets."""
    firsts = [sum(map(len, batches[:i])) for i in range(len(batches))]
    made = parsing.lines(records(one, first=first) for one, first in zip(batches, firsts, strict=True))
    return [line for batch in made for line in batch.to_pylist()]


def test_broken_messages_are_letters_with_their_reasons_and_the_others_are_rows(seed: int) -> None:
    messages, reasons = mixed(seed, 120)
    assert len(messages) > 2 * 2000
    found = lines(PARSING, messages[:700], messages[700:])
    letters = {line["offset"]: line for line in found if line["kind"] == "letter"}
    rows = Counter(line["offset"] for line in found if line["kind"] == "row" and line["state"] == NEW)
    late = {line["offset"] for line in found if line["kind"] == "row" and line["state"] == LATE}
    for offset, reason in enumerate(reasons):
        if reason is None:
            assert rows[offset] == 1
        elif reason is Reason.OUT_OF_ORDER:
            assert offset in late  # bronze is asked whether it has it
        else:
            assert letters[offset]["reason"] == reason.value
            assert (letters[offset]["record_key"], letters[offset]["record_value"]) == messages[offset]
    assert len(rows) + len(late) + len(letters) == len(messages)
    assert {reason for reason, _ in BROKEN} == set(Reason) - {
        Reason.SCHEMA_CHANGE,
        Reason.NOT_AVRO,
    }  # see test_avro_decoder.py


def test_a_row_has_the_source_s_place() -> None:
    [schema, row] = lines(PARSING, [debezium("c", 40, 7, 1)])
    assert schema["kind"] == "schema"
    assert unpack(int(row["seq"])) == (1, 1, 40, 0, 2)
    assert decode(row["key"]["value"], row["key"]["metadata"]) == {"id": 7}
    assert row["before"] is None
    assert row["position"] == {"server_uuid": "1", "file": "bin.000001", "pos": 40, "gtid": None}
    assert (row["schema_id"], row["source_table"], row["op"]) == (schema["schema_id"], "shop.t", "c")


def states(parsing: Parsing, messages: list[Message]) -> list[int]:
    return [line["state"] for line in lines(parsing, messages) if line["kind"] == "row"]


def test_what_may_be_a_repeat_is_marked() -> None:
    four = [debezium("r", 10, 1), debezium("r", 10, 2), debezium("c", 20, 3), debezium("u", 30, 3, 1)]
    assert states(PARSING, [*four, four[3], four[0]]) == [NEW, NEW, NEW, NEW, LATE, LATE]
    last = int([line for line in lines(PARSING, four) if line["kind"] == "row"][-1]["seq"])
    after = replace(PARSING, progress=Progress({("t", 0): Mark(last, 1)}))
    assert states(after, [*four, debezium("c", 40, 9)]) == [LATE, LATE, LATE, AGAIN, NEW]
    # another partition has its own mark
    assert states(replace(PARSING, progress=Progress({("t", 1): Mark(last, 1)})), four) == [NEW] * 4


def test_rows_of_a_snapshot_share_a_place_and_are_none_late() -> None:
    rows = [debezium("r", 10, n) for n in range(5)]
    first = [line for line in lines(PARSING, rows[:2]) if line["kind"] == "row"]
    after = replace(PARSING, progress=Progress({("t", 0): Mark(int(first[-1]["seq"]), 1)}))
    assert states(after, rows) == [AGAIN] * 5


def test_what_is_older_than_a_truncation_is_late() -> None:
    [_, truncation] = [
        line for line in lines(PARSING, [debezium("c", 40, 1), debezium("t", 50, 0)]) if line["kind"] == "row"
    ]
    assert truncation["op"] == "t"
    after = replace(PARSING, progress=Progress({}, {"shop.t": int(truncation["seq"])}))
    assert states(after, [debezium("c", 40, 1), debezium("c", 60, 2)]) == [LATE, NEW]


def test_letters_that_are_tried_again_are_late_for_a_floor_alone() -> None:
    after = replace(PARSING, again=True, progress=Progress({("t", 0): Mark(10**37, 1)}, {"shop.t": 10**33}))
    assert states(after, [debezium("c", 40, 1), debezium("c", 30, 2)]) == [AGAIN, AGAIN]
    beyond = replace(after, progress=Progress({}, {"shop.t": 10**37}))
    assert states(beyond, [debezium("c", 40, 1)]) == [LATE]


def canal(kind: str, *rows: dict[str, str | None]) -> Message:
    import json

    value = {"database": "shop", "table": "t", "type": kind, "isDdl": False, "es": 1, "pkNames": ["id"],
             "mysqlType": {"id": "int", "v": "int"}, "data": list(rows), "old": None}  # fmt: skip
    return None, json.dumps(value).encode()


def test_by_arrival_the_batch_and_the_offset_are_the_place() -> None:
    parsing = replace(CANAL, batch=6, epoch=2)
    found = [
        line
        for line in lines(parsing, [canal("INSERT", {"id": "1", "v": "1"}, {"id": "2", "v": None})])
        if line["kind"] == "row"
    ]
    assert [unpack(int(line["seq"])) for line in found] == [(2, 7, 0, 0, 1), (2, 7, 0, 0, 2)]
    assert found[0]["position"] == {"server_uuid": None, "file": "batch.000007", "pos": 0, "gtid": None}


def test_a_truncation_without_a_place_needs_a_topic_of_one_partition() -> None:
    declared = replace(CANAL, declarations=Declarations({"shop.*": {"id": "int", "v": "int"}}, {"shop.t": ("id",)}))
    for allowed in (True, False):
        found = lines(replace(declared, truncations=allowed), [canal("TRUNCATE")])
        assert [line["kind"] for line in found] == (["schema", "row"] if allowed else ["letter"])
    assert found[0]["reason"] == Reason.NO_POSITION.value


@pytest.mark.parametrize("text", ["\ud800", "x" * 10])
def test_names_that_are_no_text_are_letters(text: str) -> None:
    import json

    key, value = debezium("c", 10, 1)
    held = json.loads(value or b"")
    held["payload"]["source"]["table"] = text
    found = lines(PARSING, [(key, json.dumps(held).encode())])
    assert [line["kind"] for line in found] == (["letter"] if text == "\ud800" else ["schema", "row"])
