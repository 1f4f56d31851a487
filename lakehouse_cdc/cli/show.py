"""What people see: tables and progress on a terminal, plain lines elsewhere. JSON goes to stdout by itself."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakehouse_cdc.cli.as_called import as_called
from lakehouse_cdc.model.commit_note import SourcePoint
from lakehouse_cdc.mysql.uncaptured import sentences
from lakehouse_cdc.pipeline.report import Progress, VerifyReport
from lakehouse_cdc.silver.definition.engine import DELTALAKE

if TYPE_CHECKING:
    from rich.status import Status as StatusLine

    from lakehouse_cdc.ops.last_error import LastError
    from lakehouse_cdc.ops.status import Status
    from lakehouse_cdc.verify.compare import NotRepresentable, TableResult

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


class Screen:
    """Where words for people go: stderr when stdout belongs to JSON, else stdout. `file` is the pipeline's, if any."""

    def __init__(self, *, as_json: bool = False, file: Path | None = None) -> None:
        self.as_json = as_json
        self._file = file
        self._replaced: StatusLine | None = None
        self._lasting = ""
        self.console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False)
        if not self.console.is_terminal:  # else rich takes it for 80 columns wide, and folds what nobody need fold
            self.console.width, self.console.soft_wrap = 200, True

    def say(self, text: str, mark: str = "", style: str = "") -> None:
        """One line; `mark` is before it, in that style. Neither is markup: names and keys may hold brackets."""
        text = as_called(text, self._file)
        line = Text(mark, style=style) if mark else Text()
        self.console.print(line.append(f" {text}" if mark else text, style="none"))

    def command(self, text: str) -> None:
        """A command on a line of its own, which is one line for who copies it, however long it is."""
        self.console.print(Text(f"  {as_called(text, self._file)}"), soft_wrap=True)

    def lasting(self, text: str) -> None:
        """On a terminal, show a line until the next one takes its place; "" ends it."""
        if self.console.is_terminal:
            self._lasting = text
            self._show(text)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """A lasting line for the block, on a terminal."""
        self.lasting(text)
        try:
            yield
        finally:
            self.lasting("")

    def passing(self, text: str) -> None:
        """The same, before which the lasting line steps back until "" comes; elsewhere a line like any other."""
        if self.console.is_terminal:
            self._show(text or self._lasting)
        elif text:
            self.say(text)

    def _show(self, text: str) -> None:
        line = Text(text, no_wrap=True, overflow="ellipsis")
        if self._replaced is not None and text:
            self._replaced.update(line)
        elif text:
            self._replaced = self.console.status(line)
            self._replaced.start()
        elif self._replaced is not None:
            self._replaced.stop()
            self._replaced = None

    def paced(self, seconds: float = 5.0) -> Callable[[str], None]:
        """`say` for progress: lines that follow another one within so many seconds are not said."""
        said = time.monotonic()

        def say(text: str) -> None:
            nonlocal said
            if time.monotonic() - said >= seconds:
                said = time.monotonic()
                self.say(text)

        return say

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table, below a title if there is one; numbers are aligned right."""
        shown = Table(
            title=Text(title) if title else None,
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        for i, name in enumerate(columns):
            numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
            shown.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            cells = [f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else str(v) for v in row]
            shown.add_row(*map(Text, cells))
        self.console.print(shown)

    def findings(self, findings: Sequence[Any]) -> None:
        """What `doctor` found, the worst first: a line each, the way out below; and how much of it there is."""
        severities = ["error", "warning", "ok"]
        for finding in sorted(findings, key=lambda one: severities.index(one.severity)):
            code = f" ({finding.code.label})" if finding.severity == "error" else ""
            self.say(f"{finding.name}: {finding.what}{code}", f"{finding.severity:>7}", _STYLES[finding.severity])
            if finding.severity != "ok" and finding.hint:
                self.say(f"        -> {finding.hint}")
        counts = Counter(finding.severity for finding in findings)
        self.say(", ".join(f"{counts[one]} {one}{'s' * (counts[one] != 1)}" for one in severities[:2]))

    def comparison(self, report: VerifyReport) -> None:
        """What `verify` found: a line a table, and the keys that differ."""
        rows = [
            [t.table, t.rows, t.silver_rows, _outcome(t), "" if t.complete else "snapshot unfinished: the keys so far"]
            for t in report.tables
        ]
        rows += [[name, "", "", "not compared", reason] for name, reason in sorted(report.failed.items())]
        rows += [[name, "", "", "left out", reason] for name, reason in sorted(report.left_out.items())]
        title = f"{report.layer} at {report.position}"
        self.table(title, ["table", "source rows", f"{report.layer} rows", "", ""], rows)
        for t in report.tables:
            for d in t.differences:
                columns = f" in {', '.join(d.columns)}" if d.columns else ""
                self.say(f"  {t.table} {d.key}: {d.kind}{columns}")
            for one in t.not_representable:
                self._not_representable(t.table, one)
            if t.by_image:
                self.say(f"  {t.table}: {t.by_image:,} rows written since were compared by the binlog's images of them")
            for note in t.notes:
                self.say(f"  {t.table}: {note}")
        for name in report.pending:
            self.say(f"{name} is being read again, and not all of that is in silver: run, then verify again")
        self.quarantined(report.quarantined)
        self.uncaptured(report.uncaptured.all)

    def _not_representable(self, table: str, values: NotRepresentable) -> None:
        some = f", such as {', '.join(map(str, values.keys[:3]))}" if values.keys else ""
        self.say(
            f"  {table}: {values.values:,} values of {values.column} are not representable in silver's type{some};"
            " bronze holds their exact text"
        )
        self.say(
            f"        -> to have the text in silver: tables.{table}.types.{values.column}: text, and run once more"
        )

    def quarantined(self, tables: Mapping[str, str]) -> None:
        """Tables that are not followed: a line each, which ends with the way out."""
        for name, reason in tables.items():
            self.say(f"{name} is not followed: {reason}", "quarantined", _STYLES["error"])

    def uncaptured(self, names: Mapping[str, str]) -> None:
        """What matches and is not captured: a line for each reason, with the first names."""
        for line in sentences(names):
            self.say(line, "not captured", _STYLES["warning"])

    def status(self, status: Status) -> None:
        """What `status` found."""
        rows = [
            [name, t.snapshot if t.snapshot != "running" else f"below {json.dumps(t.cursor, default=str)}",
             t.bronze_rows, "" if t.silver_rows is None else t.silver_rows]
            for name, t in status.tables.items()
        ]  # fmt: skip
        if status.bronze is None:
            self.say(f"{status.pipeline} has not run yet")
            self.last_error(status.last_error)
            self.uncaptured(status.uncaptured or {})
            return
        headings = ["table", "snapshot", "bronze rows", "silver rows"]
        if any(table.engine == DELTALAKE for table in status.tables.values()):
            headings.append("engine")
            rows = [[*row, table.engine] for row, table in zip(rows, status.tables.values(), strict=True)]
        self.table(status.pipeline, headings, rows)
        self._behind(status, status.bronze)
        if status.silver is not None:
            self.say(f"silver is at {status.silver.file}:{status.silver.pos}")
        self._asked(status)
        for name, table in status.tables.items():
            if table.asked:
                self.say(f"{name} is to be read again, the whole of it or some keys, by the current run or the next")
            if table.clear:
                self._in_clear(name, table.clear)
            if table.ignored:
                self.say(f"silver's {name} is frozen: it does not hold {', '.join(table.ignored)}")
        self.quarantined({name: t.quarantined for name, t in status.tables.items() if t.quarantined})
        self.uncaptured(status.uncaptured or {})
        self.last_error(status.last_error)

    def _asked(self, status: Status) -> None:
        if any(status.texts.values()):
            passed, again = status.texts["passed_over"], status.texts["read_again"]
            self.say(f"statements logged as text: {passed:,} passed over, {again:,} had tables read again")
        if status.asked_patterns:
            self.say(f"by signal, beside source.tables: {', '.join(status.asked_patterns)}")
        if status.passed:
            self.say(f"passed by signal: the statements that end at {', '.join(status.passed)}")

    def _behind(self, status: Status, bronze: SourcePoint) -> None:
        if status.of_topics:
            self._of_topics(status, bronze)
            return
        lag = "the source cannot be reached" if status.lag is None else status.lag.sentence
        self.say(f"bronze is at {bronze.file}:{bronze.pos}, {lag}")
        if (kept := status.retention) is not None and kept.scarce:
            self.say(kept.sentence, "warning", _STYLES["warning"])
        elif kept is not None:
            self.say(kept.sentence)

    def _of_topics(self, status: Status, bronze: SourcePoint) -> None:
        """How far the topics are ahead, and what was set aside."""
        self.say(f"bronze is at {bronze.file}:{bronze.pos}")
        for topic, messages in (status.unread or {}).items():
            self.say(f"{topic}: {messages:,} messages are yet to be read" if messages else f"{topic}: all is read")
        if status.unread is None:
            self.say("the brokers cannot be reached", "warning", _STYLES["warning"])
        if letters := sum(status.dead_letters.values()):
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in status.dead_letters.items())
            self.say(f"messages that are set aside: {letters:,} ({reasons})", "warning", _STYLES["warning"])
            self.say("        -> lakehouse-cdc dead-letters list -c pipeline.yml shows them")

    def _in_clear(self, table: str, columns: Sequence[str]) -> None:
        what = f"bronze holds values of {', '.join(columns)} of {table} from before they were hidden"
        self.say(what, "in clear", _STYLES["warning"])
        self.say("        -> lakehouse-cdc redact -c pipeline.yml hides them")

    def last_error(self, error: LastError | None) -> None:
        """What ended the last run, since when, and what to do."""
        if error is not None:
            since = f"since {error.since}, last at {error.at}" if error.since != error.at else f"at {error.at}"
            tries = f"{error.tries} tries" if error.tries > 1 else "1 try"
            waits = f"the run waits ({tries} failed, others until {error.until})"
            what = waits if error.tries else "the last run ended"
            self.say(f"{what} {since}: {error.sentence}", "stopped", _STYLES["error"])
            self.say(f"        -> {error.error['hint']}")

    def result(self, data: Mapping[str, Any]) -> None:
        """With --json, the one line that machines read."""
        if self.as_json:
            print(json.dumps(data, default=str), flush=True)


def _outcome(result: TableResult) -> str:
    """What came of comparing one table, in a word or two."""
    parts = [f"{result.differing:,} differ"] if result.differing else []
    if unheld := sum(one.values for one in result.not_representable):
        parts.append(f"{unheld:,} not representable")
    return ", ".join(parts) or "equal"


class Ticker:
    """Progress of a run: on a terminal one status line that is rewritten, else a plain line at most every 5 s."""

    def __init__(self, screen: Screen, estimates: Mapping[str, int]) -> None:
        self._screen = screen
        self._estimates = estimates
        self._began = self._printed = time.monotonic()
        self._read = self._events = 0
        self._replaced = screen.console.is_terminal

    def __enter__(self) -> Ticker:
        self._screen.lasting("starting Spark and the first batch")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.lasting("")

    def __call__(self, progress: Progress) -> None:
        """Called after each batch."""
        for ops in progress.rows.values():
            self._read += ops.get("r", 0)
            self._events += sum(n for op, n in ops.items() if op in "cudt")
        now = time.monotonic()
        line = f"{self._numbers(now)}; {progress.layer} at {progress.position}"
        if self._replaced:
            self._screen.lasting(line)
        elif now - self._printed >= 5:
            self._printed = now
            self._screen.say(line)

    def _numbers(self, now: float) -> str:
        """Rows per second, about how long a snapshot still takes while one runs, and the rows so far."""
        seconds = max(now - self._began, 0.001)
        parts = [f"{(self._read + self._events) / seconds:,.0f} rows/s"]
        total = sum(self._estimates.values())
        if 0 < self._read < total:
            parts.append(f"about {(total - self._read) * seconds / self._read:,.0f} s left")
        parts += [f"{self._read:,} read", f"{self._events:,} changes"]
        return ", ".join(parts)
