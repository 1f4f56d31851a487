"""What the values of the option `start` mean."""

from __future__ import annotations

import pytest

from lakehouse_cdc.errors import ConfigError
from lakehouse_cdc.model.start_point import NOW, StartPoint, StartValue, option_text
from lakehouse_cdc.options.kinds import Invalid, StartPlace


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("2026-01-31T12:00:00.000001-00:30", 1_769_862_600_000_001),
    ],
)
def test_a_time_has_its_zone(text: str, micros: int) -> None:
    assert StartPoint.of({"time": text}).micros == micros


@pytest.mark.parametrize("value", [{"time": "2026-02-30T00:00:00Z"}, {"gtid": "abc:1"}, {"gtid": "1-2"}])
def test_what_has_the_form_and_no_meaning(value: StartValue) -> None:
    StartPlace().check(value)
    with pytest.raises(ConfigError):
        StartPoint.of(value)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "2026-01-31T25:00:00Z", "yesterday"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(Invalid):
        StartPlace().check({"time": text})


@pytest.mark.parametrize("value", ["now", "earliest", {"position": "a.000001:4"}, {"gtid": "0-1-42"}])
def test_as_an_option_of_the_source(value: StartValue) -> None:
    assert StartPlace().of_text(option_text(value)) == value
    assert StartPoint.of("now") == NOW
