"""What a terminal of 80 columns shows: lines that fit, and words in one piece."""

from __future__ import annotations

import re
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.cli.show import Screen, Ticker
from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.pipeline.report import Progress
from lakehouse_cdc.runtime import preparing as preparing_module
from lakehouse_cdc.runtime.preparing import heard_by, preparing
from tests.newcomer.terminal import shown as terminal_shows

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


def test_what_is_waited_for_is_gone_in_the_end() -> None:
    screen, shown = on_terminal(80)
    with screen.waiting("comparing"):
        pass
    assert "comparing" in shown.getvalue()
    assert [line for line in terminal_shows(shown.getvalue()) if line] == []


def test_text_is_wrapped_between_words() -> None:
    screen, shown = on_terminal(40)
    text = "the table is not followed since a statement at mysql-bin.000002:4711 could not be understood"
    screen.say(text, "quarantined", "red")
    assert max(map(len, lines(shown))) <= 40
    assert " ".join(lines(shown)).split() == f"quarantined {text}".split()


def test_a_command_is_one_line_for_who_copies_it() -> None:
    screen, shown = on_terminal(40)
    text = "lakehouse-cdc init --url mysql://cdc@127.0.0.1:3306 --tables 'shop.*' --password-env SHOP_PASSWORD"
    screen.command(text)
    assert lines(shown) == [f"  {text}"]


def test_how_far_a_download_is_takes_one_line_of_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is gone at the end; the progress of a run, before which it stepped, is back then."""
    monkeypatch.setattr(preparing_module, "_PAUSE", 0.05)
    screen, shown = on_terminal(80)
    with Ticker(screen, {}), heard_by(screen.say, screen.passing), preparing("jars", tmp_path):
        time.sleep(0.6)
    kept = terminal_shows(shown.getvalue())
    assert [line for line in kept if "MB after" in line or "starting" in line] == []
    assert [re.sub(r"[\d.]+ s", "0 s", line) for line in kept if line] == [
        "fetching jars, once on this machine", "fetched jars in 0 s",
    ]  # fmt: skip
    text = CONTROL.sub("", shown.getvalue())
    assert "starting Spark" in text[: text.index("MB after")]
    assert "starting Spark" in text[text.rindex("MB after") :]


def test_elsewhere_it_is_a_line_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing_module, "_PAUSE", 0.05)
    screen, shown = Screen(), StringIO()
    screen.console = Console(file=shown, width=200, highlight=False)
    with heard_by(screen.say, screen.passing), preparing("jars", tmp_path):
        time.sleep(0.3)
    first, *between, last = lines(shown)
    assert (first, last.startswith("fetched jars in ")) == ("fetching jars, once on this machine", True)
    assert between
    assert all(line.startswith("fetching jars: 0 MB after ") for line in between)


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
