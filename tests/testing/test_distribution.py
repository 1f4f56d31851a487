"""What a server of the tests is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.testing.distribution import Distribution

pytestmark = pytest.mark.unit
LIBRARIES = "LD_LIBRARY_PATH"


@pytest.mark.parametrize(
    ("own", "others", "given"),
    [("/of/it", "/of/python", "/of/it:/of/python"), ("/of/it", "", "/of/it"), ("", "/of/python", "/of/python")],
)
def test_its_libraries_come_before_those_that_python_may_need(
    monkeypatch: pytest.MonkeyPatch, own: str, others: str, given: str
) -> None:
    monkeypatch.setenv("MYSQL_HOME", "/elsewhere")
    monkeypatch.setenv(LIBRARIES, others)
    environment = Distribution(("mysqld",), Path("share"), {}, {LIBRARIES: own} if own else {}).environment()
    assert environment[LIBRARIES] == given
    assert "MYSQL_HOME" not in environment
