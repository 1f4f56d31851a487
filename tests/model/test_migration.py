"""A change of the schema in the fold: what rows become, and what is no longer held against the images that follow."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse_cdc.model.changelog import Change, Op, Rows, fold, invalid


def schema(key: list[str], *columns: str) -> dict[str, Any]:
    """Columns as `name type`; one that begins with `-` is left out by the user."""
    parts = [[*column.lstrip("-").split(), not column.startswith("-")] for column in columns]
    return {"columns": [{"name": n, "type": t, "captured": c} for n, t, c in parts], "key": key}


OLD = schema(["id"], "id int", "a int", "b text", "-c int")


def altered(seq: int, new: dict[str, Any], **origin: str) -> Change:
    return Change(seq, Op.SCHEMA, "t", None, OLD, {**new, "statement": "", "origin": origin})


def pairs(value: Any) -> Any:
    """Images as the source's tests hold them."""
    if isinstance(value, dict):
        return tuple(sorted((k, pairs(v)) for k, v in value.items()))
    return tuple(pairs(v) for v in value) if isinstance(value, list) else value


START = [Change(1, Op.READ, "t", (1,), None, {"id": 1, "a": 5, "b": "x"})]
RENAMED = altered(2, schema(["Id"], "Id int", "b int", "n int", "c int"), Id="id", b="a", c="c")


def test_rows_take_their_values_along() -> None:
    assert fold([*START, RENAMED]) == {("t", (1,)): (1, {"Id": 1, "b": 5, "n": None, "c": None})}
    named = [Change(c.seq, c.op, "t", pairs({"id": 1}), None, pairs(c.after)) for c in START]
    change = Change(2, Op.SCHEMA, "t", None, pairs(RENAMED.before), pairs(RENAMED.after))
    key, image = pairs({"Id": 1}), pairs({"Id": 1, "b": 5, "n": None, "c": None})
    assert fold([*named, change]) == {("t", key): (1, image)}


@pytest.mark.parametrize(
    ("new", "origin", "rows"),
    [
        (schema(["a"], "id int", "a int"), {"id": "id", "a": "a"}, {("t", (5,)): (1, {"id": 1, "a": 5})}),
        (schema(["a", "id"], "id int", "a int"), {"id": "id", "a": "a"}, {("t", (5, 1)): (1, {"id": 1, "a": 5})}),
        # nobody can find a row by what it does not hold yet
        (schema(["n"], "n int", "a int"), {"a": "a"}, {("t", ("not known", (1,))): (1, {"n": None, "a": 5})}),
    ],
)
def test_rows_are_found_by_the_new_key(new: dict[str, Any], origin: dict[str, str], rows: Rows) -> None:
    assert fold([*START, altered(2, new, **origin)]) == rows


def test_what_a_change_cannot_have_done_is_a_breach() -> None:
    def updated(**before: Any) -> Change:
        return Change(3, Op.UPDATE, "t", (1,), before, before)

    # the added and the shown column may hold anything, the renamed one what it held
    assert invalid([*START, RENAMED, updated(Id=1, b=5, n=9, c=9)]) is None
    assert "but the state is" in (invalid([*START, RENAMED, updated(Id=1, b=6, n=9, c=9)]) or "")
    # once the row was written again, all of it is known
    again = Change(4, Op.UPDATE, "t", (1,), {"Id": 1, "b": 5, "n": 8, "c": 9}, {})
    assert "but the state is" in (invalid([*START, RENAMED, updated(Id=1, b=5, n=9, c=9), again]) or "")


def test_under_a_new_key_nothing_is_known_until_the_table_was_read_again() -> None:
    rekeyed = altered(2, schema(["n"], "n int", "a int"), a="a")
    row, deleted = {"n": 7, "a": 5}, Change(3, Op.DELETE, "t", (7,), {"n": 7, "a": 5}, None)
    assert invalid([*START, rekeyed, deleted]) is None
    read = [Change(4, Op.READ, "t", (7,), None, row), Change(5, Op.END, "t", None, None, 4)]
    twice = Change(6, Op.INSERT, "t", (7,), None, row)
    assert invalid([*START, rekeyed, deleted, *read]) is None
    assert "but the row is there" in (invalid([*START, rekeyed, deleted, *read, twice]) or "")
    assert fold([*START, rekeyed, deleted, *read]) == {("t", (7,)): (4, row)}
