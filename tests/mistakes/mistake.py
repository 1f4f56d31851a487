"""One mistake, how it is made, and what the program said."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from lakehouse_cdc.cli.main import app
from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.settings import READER_PASSWORD

FILE = """\
name: shop
source:
  url: mysql://cdc@127.0.0.1:3306
  password: ${env:SHOP_PASSWORD}
  tables: ["shop.*"]
target:
  path: ./lakehouse
  bronze: shop_bronze
  silver: shop_silver
"""
HOME = "/home/me/shop"  # for the folder where a mistake was made
PROGRAM = "lakehouse-cdc"
PREPARED = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY, total DECIMAL(10, 2), note VARCHAR(100))",
    "CREATE TABLE shop.customers (id INT PRIMARY KEY, email VARCHAR(100))",
    "CREATE TABLE shop.log (at DATETIME NOT NULL, what TEXT)",
    "CREATE VIEW shop.recent AS SELECT id FROM shop.orders",
    "CREATE USER blind@127.0.0.1 IDENTIFIED BY 'cdc-secret'",
    "CREATE USER selecting@127.0.0.1 IDENTIFIED BY 'cdc-secret'",
    "GRANT SELECT ON shop.* TO selecting@127.0.0.1",
    "CREATE USER encrypted@127.0.0.1 IDENTIFIED BY 'cdc-secret' REQUIRE SSL",
    "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO encrypted@127.0.0.1",
    "GRANT XA_RECOVER_ADMIN ON *.* TO cdc@127.0.0.1, blind@127.0.0.1, selecting@127.0.0.1, encrypted@127.0.0.1",
)
_PROGRAM = "import sys; sys.argv[0] = 'lakehouse-cdc'\nfrom lakehouse_cdc.cli.main import main; main()"
# what Python does where a package is not installed
_ABSENT = """\
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


@dataclass(frozen=True)
class Mistake:
    """`what` was done; `command` is as typed, after `lakehouse-cdc`.

    The file is `FILE` with `edits` (each text in place of another one), and `more` after it, or `text` as a whole;
    `{other}` in it is the port of the server without a binlog. `sql` is run on the server before, and `undo` after.
    `beside` are files in the folder. `absent` are packages that are not installed; with these, or with `environment`,
    the program runs in a process of its own. `script` is run in its place. `server` says that a server has to answer.
    """

    what: str
    command: str = "config -c pipeline.yml"
    edits: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    text: str | bytes | None = None
    sql: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    script: Path | None = None
    server: bool = False
    code: int = 2

    @property
    def own_process(self) -> bool:
        """Whether the program runs in a process of its own."""
        return bool(self.absent or self.environment or self.script)

    def written(self) -> bytes:
        """The configuration file."""
        text = FILE if self.text is None else self.text
        if isinstance(text, bytes):
            return text
        for right, wrong in self.edits.items():
            assert right in text, (self.what, right)
            text = text.replace(right, wrong)
        return (text + self.more).encode()

    @property
    def shown(self) -> str:
        """What a reader sees of how it was made: what is wrong in the file, else the command."""
        if self.sql:
            return "; ".join(self.sql)
        own = self.written().decode("utf-8", "replace").replace("{other}", "3307").splitlines()
        wrong = [line.strip() for line in own if line not in FILE.splitlines()]
        return "; ".join(wrong) or (self.script.name if self.script else f"{PROGRAM} {self.command}")


@dataclass(frozen=True)
class Said:
    """The exit code of the program, and its words for people."""

    code: int
    text: str


class World:
    """A folder, and servers, which run once one of them is needed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack

    @cached_property
    def _servers(self) -> tuple[MySqlServer, MySqlServer]:
        """One with a small shop, and accounts of each kind; and one without a binlog."""
        safe = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}  # else every `doctor` warns of it
        every: tuple[dict[str, str | None], ...] = ({**safe}, {**safe, "disable_log_bin": None})
        shop, other = (self._stack.enter_context(MySqlServer.start(options=options)) for options in every)
        for server in (shop, other):
            _run(server, PREPARED)
        return shop, other

    def make(self, mistake: Mistake) -> Said:
        """Make a mistake, and return what the program said, without what differs from one machine to another."""
        folder = self._folder / re.sub(r"\W+", "-", mistake.what)
        folder.mkdir()
        shop, other = self._servers if mistake.server else (None, None)
        ports = {"3306": shop.port, "{other}": other.port} if shop and other else {}
        (folder / "pipeline.yml").write_bytes(_with_ports(mistake.written(), ports))
        for name, text in mistake.beside.items():
            (folder / name).write_text(text, encoding="utf-8")
        arguments = _with_ports(mistake.command.encode(), ports).decode()
        with _with_statements(shop, mistake):
            code, output = _called(mistake, shlex.split(arguments), folder)
        for shown, port in zip(("3306", "3307"), ports.values(), strict=False):
            output = output.replace(str(port), shown)
        return Said(code, _readable(output.replace(str(folder), HOME)))


def _run(server: MySqlServer, statements: Sequence[str]) -> None:
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def _with_statements(server: MySqlServer | None, mistake: Mistake) -> Iterator[None]:
    if server is None:
        yield
        return
    _run(server, mistake.sql)
    try:
        yield
    finally:
        _run(server, mistake.undo)


def _called(mistake: Mistake, arguments: list[str], folder: Path) -> tuple[int, str]:
    variables = {"SHOP_PASSWORD": READER_PASSWORD, **mistake.environment}
    with patch.dict("os.environ", variables), _within(folder):
        for name in {"LAKEHOUSE_CDC_PASSWORD", "JAVA_HOME"} - mistake.environment.keys():
            os.environ.pop(name, None)
        if not mistake.own_process:
            result = CliRunner().invoke(app, arguments, prog_name=PROGRAM)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result.exit_code, result.output
        own = f"exec(compile(open({str(mistake.script)!r}).read(), {str(mistake.script)!r}, 'exec'))"
        code = _ABSENT.format(absent=mistake.absent) + (own if mistake.script else _PROGRAM)
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


@contextmanager
def _within(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _with_ports(text: bytes, ports: Mapping[str, int]) -> bytes:
    for name, port in ports.items():
        text = text.replace(name.encode(), str(port).encode())
    return text


def _readable(output: str) -> str:
    """The words alone: a line a sentence, without the frame of a usage error, and of `doctor` without what is fine.

    Whether a machine has compiled the kernels before is left out, too.
    """
    if framed := re.findall(r"^│ (.*?) *│$", output, re.MULTILINE):
        output = " ".join(framed)
    output = re.sub(r"_ssl\.c:\d+", "_ssl.c", output)
    lines = [" ".join(line.split()) for line in output.splitlines()]
    if "Traceback (most" in output:
        lines = lines[-1:]
    return "\n".join(line for line in lines if line and not line.startswith(("ok ", "compiling what reads rows")))


@contextmanager
def opened(folder: Path) -> Iterator[World]:
    """The world for all mistakes."""
    with ExitStack() as stack:
        yield World(folder, stack)
