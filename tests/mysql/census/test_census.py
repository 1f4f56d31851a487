"""Whatever is said to be kept by an ALTER is: by the images that a snapshot reads before and after, on real servers."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from lakehouse_cdc.testing import MySqlServer
from tests.mysql.census.columns import of_server
from tests.mysql.census.page import PAGE, page, read_results
from tests.mysql.census.run import Census, Found, counts

pytestmark = pytest.mark.every_server

SOURCES = 2  # columns of a sample, each with so many targets, besides its own type
TARGETS = 7


def wrong(found: list[Found]) -> list[str]:
    return [f"{one.old.name} -> {one.new.name} [{one.mode}]: {one.wrong}" for one in found if one.wrong]


def test_a_sample(any_server: MySqlServer, any_database: str, seed: int) -> None:
    """Pairs at random."""
    chosen, specs = random.Random(seed), of_server(any_server.version)
    found: list[Found] = []
    with closing(Census(any_server, any_database)) as census:
        for old in chosen.sample(specs, SOURCES):
            found += census.pairs(old, [old, *chosen.sample(specs, TARGETS)])
    assert not wrong(found)
    assert "proven" in {one.verdict for one in found}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_all_pairs(any_server: MySqlServer, any_database: str) -> None:
    """And the documentation has their numbers."""
    specs = of_server(any_server.version)
    with closing(Census(any_server, any_database)) as census:
        found = [one for old in specs for one in census.pairs(old, specs)]
    assert not wrong(found)
    numbers = counts(any_server.version, found)
    assert numbers == {name: kinds for name, kinds in read_results().items() if name in numbers}


def test_the_page() -> None:
    """`uv run python -m tests.mysql.census --page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page(read_results())
