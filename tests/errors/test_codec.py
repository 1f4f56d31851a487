"""An error comes back from any text that it was put into as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import CdcError, DefiniteError, codes
from lakehouse_cdc.errors.codec import MARK, crossing, decoded, encoded
from lakehouse_cdc.errors.tree import REGISTRY

words = st.text() | st.sampled_from(
    [MARK, '{"code": "CDC-1001"}', 'a "quoted"\n\ttext', "x" * 100_000, "<a> ${b} %s", "\ud7ff"]
)
texts = st.lists(words, max_size=4).map("".join)
errors = st.builds(
    lambda number, what, where, hint, table: REGISTRY[number].error(what, where=where, hint=hint, table=table),
    st.sampled_from(sorted(REGISTRY)), texts, texts, texts, texts,
)  # fmt: skip
around = st.text().filter(lambda text: MARK not in text)


@given(error=errors, before=around, after=around)
def test_any_error_comes_back_from_any_text(error: CdcError, before: str, after: str) -> None:
    text = encoded(error)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert text.count(MARK) == 1
    assert not set(text[len(MARK) :]) & set("%<>$")
    # a JSON is over where it ends, whatever follows it
    found = decoded(f"Traceback: {before}{text}{after}")
    assert found is not None
    assert found.code is error.code
    assert found.as_json() == error.as_json()
    assert str(found) == str(error)


@given(errors, errors)
def test_the_last_of_several_is_the_cause(first: CdcError, last: CdcError) -> None:
    found = decoded(f"{encoded(first)}\nCaused by: {encoded(last)}\n\tat java.lang.Thread.run")
    assert found is not None
    assert found.as_json() == last.as_json()


@given(errors, st.data())
def test_what_was_cut_off_is_no_error(error: CdcError, data: st.DataObject) -> None:
    text = encoded(error)
    assert decoded(text[: data.draw(st.integers(0, len(text) - 1))]) is None


@pytest.mark.parametrize("text", ["", MARK, f"{MARK}12", f'{MARK}{{"code": "CDC-9999"}}', f"{MARK}null", f"{MARK}{{}}"])
def test_other_texts_have_no_error(text: str) -> None:
    assert decoded(text) is None


def test_an_error_that_crosses_has_its_data_after_its_text() -> None:
    error = codes.TABLE_GONE.error("the table is gone", table="a.b")
    plain = str(error)
    with pytest.raises(DefiniteError) as caught, crossing():
        raise error
    assert str(caught.value).startswith(f"{plain} {MARK}")
    found = decoded(str(caught.value))
    assert found is not None
    assert str(found) == plain
    assert found.table == "a.b"
