"""A note in the text of a statement, as Delta's log gives that back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.lake.commit_log import Commit
from lakehouse_cdc.model.carried_note import carried, carried_by
from lakehouse_cdc.model.table_layout import literal
from tests.support.commit_notes import note

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS, TEXTS)
def test_it_comes_back_whatever_is_around_it(text: str, application: str, around: str) -> None:
    mark = carried(text, application)
    assert literal(mark) == f"'{mark}'"  # nothing in it is escaped
    predicates = json.dumps([{"predicate": f"(cast(seq#1 as string) = {mark})", "actionType": around}])
    assert carried_by({"predicate": around, "matchedPredicates": predicates}) == (application, text)
    properties = json.dumps({around: around, "lakehouse_cdc.note": mark})
    assert carried_by({"properties": properties}) == (application, text)


def test_a_commit_says_it_in_one_way_or_the_other() -> None:
    carrying = {"matchedPredicates": carried(note(7).text(), "app")}
    commit = Commit.of(3, None, {"numOutputRows": "5"}, carrying)
    assert (commit.note, commit.carried_for, commit.rows) == (note(7), "app", 5)
    by_setting = Commit.of(3, note(7).text(), None, {"predicate": "true"})
    assert (by_setting.note, by_setting.carried_for) == (note(7), None)
    assert Commit.of(3, None, None, {"predicate": "lakehouse_cdc.note: none"}).note is None
    assert carried_by(None) is None
