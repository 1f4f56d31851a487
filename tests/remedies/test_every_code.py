"""Each code of an error has a test of its way out, or a reason why it has none."""

from __future__ import annotations

from lakehouse_cdc.errors import Code, codes
from tests.remedies import page

CODES = {name for name, code in vars(codes).items() if isinstance(code, Code)}


def test_every_code_has_a_test_or_a_reason() -> None:
    tested = page.tests()
    assert tested.keys() - CODES == set(), "no such code"
    assert tested.keys() & page.WITHOUT.keys() == set(), "a reason that is none any more"
    assert CODES - tested.keys() - page.WITHOUT.keys() == set()
    assert page.WITHOUT.keys() - CODES == set()


def test_the_page_names_the_tests() -> None:
    text = (page.ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    for named in page.tests().values():
        for test in named:
            assert f"`{test}`" in text
