"""Which columns of which schemas are hidden when one is masked or excluded later, whatever it was called before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.redaction import REMOVED, Redaction
from lakehouse_cdc.schema.table import Column, TableSchema

Era = tuple[TableSchema, Mapping[str, str] | None]
ID = Column("id", "int", nullable=False)
KEEP, HASH = "keep:0:4", "hash:01234567"


def text(name: str, mask: str = "", **more: Any) -> Column:
    return Column(name, "varchar", length=9, charset="utf8mb4", mask=mask, **more)


def schema(*columns: Column, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema("shop", "t", (ID, *columns), key)


def history(*eras: Era | None, masks: Mapping[str, str] | None = None, **choice: Any) -> Redaction:
    """The eras at seqs 10, 20, ...: each a schema and the origin of its columns but `id`; None where it was left off.

    `masks` are those of the configuration.
    """
    rows: list[tuple[int, dict[str, Any] | None]] = []
    for n, era in enumerate(eras, start=1):
        if era is None:
            rows.append((10 * n, None))
            continue
        made, origin = era
        rows.append((10 * n, made.to_dict() | ({} if origin is None else {"origin": {"id": "id", **origin}})))
    return Redaction.of("shop.t", rows, Choice(masks={"shop.t": masks or {}}, **choice))


def hidden(redaction: Redaction) -> list[Mapping[str, str]]:
    return [era.hidden for era in redaction.eras]


def test_a_mask_is_that_of_all_eras() -> None:
    redaction = history((schema(text("a")), None), (schema(text("a", HASH)), {"a": "a"}))
    assert hidden(redaction) == [{"a": HASH}, {}]
    assert redaction.eras[0].new == schema(text("a", HASH))
    assert redaction.columns == ["a"]


def test_a_column_is_followed_through_its_names() -> None:
    """a and b swap their names; only the one that is called b at the end is masked."""
    redaction = history(
        (schema(text("a"), text("b")), None),
        (schema(text("a"), text("c")), {"a": "a", "c": "b"}),
        (schema(text("b"), text("a")), {"b": "a", "a": "c"}),
        (schema(text("b", "null"), text("a")), {"b": "b", "a": "a"}),
        masks={"b": "null"},
    )
    assert hidden(redaction) == [{"a": "null"}, {"a": "null"}, {"b": "null"}, {}]


def test_a_dropped_column_is_treated_as_its_last_name_is() -> None:
    renamed: Era = (schema(text("b")), {"b": "a"})
    dropped: list[Era] = [(schema(text("a")), None), renamed, (schema(), {}), (schema(text("b")), {})]
    assert hidden(history(*dropped, masks={"a": HASH})) == [{}, {}, {}, {}]
    assert hidden(history(*dropped, masks={"b": HASH})) == [{"a": HASH}, {"b": HASH}, {}, {}]
    assert hidden(history(*dropped, exclude={"shop.*": ["B"]})) == [{"a": REMOVED}, {"b": REMOVED}, {}, {}]
    assert hidden(history(*dropped, include={"shop.*": ["id"]})) == [{}, {}, {}, {}]


def test_of_two_columns_of_one_name_each_is_treated_for_itself() -> None:
    """The first a was dropped by the statement that added the second, which is called b by now."""
    redaction = history(
        (schema(text("a")), None), (schema(text("a")), {}), (schema(text("b", HASH)), {"b": "a"}), masks={"b": HASH}
    )
    assert hidden(redaction) == [{}, {"a": HASH}, {}]
    first, second = (era.old.id for era in redaction.eras[:2])
    assert first == second
    assert redaction.era_of(first, 15).hidden == {}
    assert redaction.era_of(first, 25).hidden == {"a": HASH}
    assert redaction.era_of(redaction.eras[1].new.id, 25) is redaction.eras[1]


def test_what_was_excluded_is_removed_and_what_was_never_captured_stays_so() -> None:
    redaction = history(
        (schema(text("a"), text("b", captured=False)), None),
        (schema(text("a", captured=False), text("b", HASH)), {"a": "a", "b": "b"}),
    )
    assert hidden(redaction) == [{"a": REMOVED}, {}]
    assert [column.name for column in redaction.eras[0].new.captured] == ["id"]


def test_what_was_masked_otherwise_or_cannot_be_is_null() -> None:
    masked = history((schema(text("a", KEEP)), None), (schema(text("a", HASH)), {"a": "a"}))
    assert hidden(masked) == [{"a": "null"}, {}]
    assert masked.eras[0].new == masked.eras[1].new
    shown = history((schema(text("a", KEEP)), None), (schema(text("a")), {"a": "a"}))
    assert hidden(shown) == [{}, {}]
    bytes_first = history((schema(Column("a", "blob")), None), (schema(text("a", KEEP)), {"a": "a"}))
    assert hidden(bytes_first) == [{"a": "null"}, {}]
    assert bytes_first.eras[0].new.columns[1].mask == "null"


def test_a_column_that_was_of_the_key_can_be_hashed_alone() -> None:
    was_key = schema(text("a"), key=("a",))
    history((was_key, None), (schema(text("a", HASH)), {"a": "a"})).require_possible()
    for now in (text("a", "null"), text("a", KEEP), text("a", captured=False)):
        with pytest.raises(DefiniteError) as refused:
            history((was_key, None), (schema(now), {"a": "a"})).require_possible()
        assert refused.value.code is codes.REDACTION_OF_KEY


def test_a_table_that_was_left_off_continues_with_its_columns() -> None:
    redaction = history((schema(text("a")), None), None, (schema(text("c", HASH)), {"c": "a"}), masks={"c": HASH})
    assert hidden(redaction) == [{"a": HASH}, {}]


def test_of_a_table_that_is_left_off_the_configuration_decides() -> None:
    eras = (schema(text("a"), text("b", KEEP)), None), None
    assert hidden(history(*eras, masks={"a": HASH})) == [{"a": HASH}]
    assert hidden(history(*eras)) == [{}]
    masked = (schema(text("a")), None), (schema(text("a", KEEP)), {"a": "a"})
    assert hidden(history(*masked, None))[0] == {"a": KEEP}
    assert hidden(history(*masked, (schema(), {})))[0] == {"a": KEEP}


def test_to_redact_again_changes_nothing() -> None:
    eras = (schema(text("a"), text("b")), None), (schema(text("c", HASH)), {"c": "a"})
    once = history(*eras, masks={"b": "null"})
    assert once.columns == ["a", "b"]
    again = history((once.eras[0].new, None), (once.eras[1].new, {"c": "a"}), masks={"b": "null"})
    assert again.columns == []
    assert all(era.old == era.new for era in again.eras)


def test_rows_under_a_schema_that_is_not_recorded_are_refused() -> None:
    with pytest.raises(DefiniteError) as refused:
        history((schema(), None)).era_of("0" * 16, 5)
    assert refused.value.code is codes.SCHEMA_RECORD_DAMAGED
