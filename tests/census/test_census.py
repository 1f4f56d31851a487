"""The page says of each server what is so there, and what is captured is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.testing import VERSIONS, MySqlServer
from tests.census.outcome import LEFT_OUT, NOT_MADE, outcomes
from tests.census.page import PLACE, column_of, page
from tests.census.tables import rows


@pytest.mark.long
def test_the_page_says_what_each_server_s_tables_come_to(
    any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    assert outcomes(any_server, any_database, tmp_path) == column_of(any_server.version, PLACE.read_text())


def test_a_column_is_read_as_it_was_written() -> None:
    texts = ("by (id)", NOT_MADE, f"{LEFT_OUT}has no rows", f"{LEFT_OUT}is a view")
    columns = {v: {row: texts[(n + m) % 4] for n, row in enumerate(rows())} for m, v in enumerate(VERSIONS)}
    assert {version: column_of(version, page(columns)) for version in VERSIONS} == columns
