"""What a terminal of 80 columns shows: lines that fit, and words in one piece."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.cli.show import Screen, Ticker
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import Progress

pytestmark = pytest.mark.unit
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def on_terminal(width: int) -> tuple[Screen, StringIO]:
    screen, shown = Screen(), StringIO()
    screen.console = Console(file=shown, force_terminal=True, width=width, highlight=False)
    return screen, shown


def lines(shown: StringIO) -> list[str]:
    return CONTROL.sub("", shown.getvalue()).splitlines()


def test_progress_fits_and_begins_with_rate_and_time_left() -> None:
    screen, shown = on_terminal(80)
    with Ticker(screen, {"shop.orders": 3_000_000_000}) as ticker:
        for batch, rows in enumerate((1_000_000_000, 234_567_890)):
            counted = {"shop.orders": {"r": rows, "u": rows}}
            ticker(Progress("bronze", batch, "a-server-with-a-long-name-bin.000123:4123456789", 0, counted))
    assert max(map(len, lines(shown))) <= 80
    [last] = {line for line in lines(shown) if "1,234,567,890 read" in line} or {""}
    assert re.search(r"^\W*[0-9,]+ rows/s, about [0-9,]+ s left, 1,234,567,890 read", last), lines(shown)


def test_text_is_wrapped_between_words() -> None:
    screen, shown = on_terminal(40)
    text = "the table is not followed since a statement at mysql-bin.000002:4711 could not be understood"
    screen.say(text, "quarantined", "red")
    assert max(map(len, lines(shown))) <= 40
    assert " ".join(lines(shown)).split() == f"quarantined {text}".split()


@pytest.mark.parametrize(
    ("command", "method", "said"),
    [
        (["doctor"], "doctor", "nothing was changed"),
        (["run", "--plan"], "plan", "what was committed stays, and the next run continues from there"),
        (["signal", "snapshot", "a.b"], "read_again", "what was done stays, and the same command does the rest"),
    ],
)
def test_what_is_said_after_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: list[str],
    method: str,
    said: str,
) -> None:
    file = tmp_path / "pipeline.yml"
    file.write_text(
        'name: a\nsource: {url: "mysql://cdc@db", tables: ["a.*"]}\ntarget: {path: lake, bronze: b, silver: s}\n'
    )

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pipeline, method, interrupted)
    done = CliRunner().invoke(app, [*command, "-c", str(file)])
    assert (done.exit_code, done.stderr) == (130, f"interrupted; {said}\n")
