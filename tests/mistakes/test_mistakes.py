"""Each mistake, made again: its line of the page is what the program says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mistakes.mistake import Mistake, World, opened
from tests.mistakes.page import MISTAKES, line
from tests.support.documents import text

PAGE = "docs/reference/mistakes.md"
AGAIN = f"read what is new, then: uv run python -m tests.mistakes > {PAGE}"
SECRETS = ("hunter2", "cdc-secret")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("mistakes")) as made:
        yield made


def checked(world: World, mistake: Mistake) -> None:
    """Make a mistake, and compare."""
    said = world.make(mistake)
    assert said.code == mistake.code, said.text
    assert line(mistake, said) in text(PAGE).splitlines(), (said.text, AGAIN)
    assert not [secret for secret in SECRETS if secret in said.text]
    assert mistake.script or "Traceback" not in said.text


@pytest.mark.mysql
@pytest.mark.parametrize("mistake", [one for one in MISTAKES if one.server], ids=lambda one: one.what)
def test_the_page_has_what_is_said_of_a_server(world: World, mistake: Mistake) -> None:
    checked(world, mistake)


@pytest.mark.process
@pytest.mark.parametrize("mistake", [one for one in MISTAKES if not one.server], ids=lambda one: one.what)
def test_the_page_has_what_is_said_without_a_server(world: World, mistake: Mistake) -> None:
    checked(world, mistake)


def test_the_page_has_no_other_mistakes() -> None:
    rows = [row for row in text(PAGE).splitlines() if row.startswith("| ") and not row.startswith("| mistake |")]
    assert len(rows) == len(MISTAKES)
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES) >= 45
