"""A pipeline that runs while everything around it fails, under writes; then whether it has everything, once.

Argument: at the end the source is what all committed transactions came to, and nobody but the server knows these. So
the pipeline's tables are compared with the source by `verify`, silver and bronze, and of the rows that count their
versions bronze must have each one that there was, and no other (see `tests.faults.counters`). A fault that had no
effect proves nothing: those that hit nothing are not counted, and after some of them the next commit of bronze is
waited for, so that the later ones hit a pipeline that works again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse_cdc.pipeline.pipeline import Pipeline
from lakehouse_cdc.testing import MySqlServer, Shop, Version
from lakehouse_cdc.testing.certificate import CERTIFICATE, write_certificate
from lakehouse_cdc.testing.settings import READER_PASSWORD
from lakehouse_cdc.testing.shop import TABLES
from tests.faults import lake, of_network, of_processes, of_server
from tests.faults.counters import misfits
from tests.faults.kinds import Kind, Tally, World, draw
from tests.faults.supervised import Supervised
from tests.faults.writers import Writers
from tests.support.relay import relay
from tests.support.servers import connected

_CONFIG = """\
name: faults
source:
  url: mysql://cdc@127.0.0.1:{port}
  password: ${{env:FAULTS_PASSWORD}}
  tables: ["shop.*"]
  chunk_rows: 300
  chunks_per_trigger: 2
  {tls}
target:
  path: {path}
  bronze: bronze
  silver: silver
"""
_ENVIRONMENT = {"FAULTS_PASSWORD": READER_PASSWORD}
_PATIENCE = 1200.0  # seconds until a pipeline around which nothing fails any more has committed something
_FAULTS_IN_A_ROW = (5, 20)
_ENDS = {3, 130, -signal.SIGKILL}  # an error that was said, a Ctrl-C, a fault; 1 would be a trace
_TABLES = {f"shop.{table}" for table in (*TABLES, "counters")}


@dataclass(frozen=True)
class Outcome:
    """What was done, and came of it. `wrong` is empty where nothing was lost, doubled or invented."""

    kinds: Sequence[Kind]
    tally: Tally
    seconds: float
    ended: Counter[int]
    batches: int
    transactions: int
    wrong: list[str]

    def __str__(self) -> str:
        ends = ", ".join(f"{times} times with {code}" for code, times in sorted(self.ended.items()))
        return (
            f"{self.tally.table(self.kinds)}\n{self.seconds:.0f} s, {self.transactions} transactions of counters,"
            f" {self.batches} batches of bronze; the run ended {ends}\n" + "\n".join(self.wrong or ["nothing is wrong"])
        )


def kinds_of(version: Version, *, mounts: bool) -> list[Kind]:
    """All that can be made of this server here."""
    every = [*of_network.KINDS, *of_server.of(version, of_server.KINDS), *of_processes.KINDS]
    return [*every, *(lake.KINDS if mounts else ())]


def can_mount() -> bool:
    """Whether this process may mount a file system."""
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("mount") is not None


def play(
    server: MySqlServer, folder: Path, *, faults: int, seed: int, session: Callable[[], SparkSession], seconds: float
) -> Outcome:
    """So many faults of and around a server that nobody else uses, or as many as there are in those seconds.

    `session` gives a Spark session with Delta at the end, to look at bronze. Raises AssertionError where the pipeline
    does not continue after faults that are over.
    """
    kinds = kinds_of(server.version, mounts=can_mount())
    tally, rng = Tally(), random.Random(seed)
    with ExitStack() as stack:
        network = stack.enter_context(relay(server.port))
        shop = Shop(server.connect, "shop", seed=seed)
        shop.create()
        shop.load(5000)
        admin = stack.enter_context(closing(connected(server)))
        disk = stack.enter_context(lake.Disk(folder / "disk")) if can_mount() else None
        path = folder / "disk"
        path.mkdir(exist_ok=True)
        writers = Writers(server, "shop", rate=10, seed=seed, shop=True)
        world = World(server, network, rng, writers, admin, disk=disk)
        config = folder / "pipeline.yml"
        config.write_text(_CONFIG.format(port=network.port, path=path, tls=_tls(world, folder)))
        checkpoint = Path(Pipeline.from_yaml(config).checkpoint("bronze"))
        with writers:
            world.run = Supervised(config, folder / "run.log", _ENVIRONMENT)
            with world.run:
                _progress(world.run, checkpoint)
                began = time.monotonic()
                while tally.made.total() < faults and time.monotonic() < began + seconds:
                    for _ in range(rng.randint(*_FAULTS_IN_A_ROW)):
                        tally.inject(draw(kinds, rng), world, time.sleep)
                        time.sleep(rng.uniform(0, 1.5))
                    _progress(world.run, checkpoint)
                    print(f"{tally.made.total()} faults, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        os.environ |= _ENVIRONMENT
        wrong = [f"the run ended with {code}" for code in world.run.ended.keys() - _ENDS]
        if wrong:
            wrong += _errors(folder / "run.log")
        wrong += _wrong(config, writers, session)
        return Outcome(
            kinds, tally, time.monotonic() - began, world.run.ended, _committed(checkpoint), writers.transactions,
            wrong,
        )  # fmt: skip


def _tls(world: World, folder: Path) -> str:
    """The line of the configuration: the server has a certificate that its readers verify."""
    if world.server.version == "mysql-5.7":
        return "tls: disabled"
    write_certificate(world.server.directory / "data")
    of_server.reload_certificate(world)
    shutil.copy2(world.server.directory / "data" / CERTIFICATE, folder / "ca.pem")
    return f"tls: verify-identity\n  tls_ca: {folder / 'ca.pem'}"


def _errors(log: Path) -> list[str]:
    """What the runs that ended said, each once."""
    return sorted({line for line in log.read_text(errors="replace").splitlines() if line.startswith("error: ")})


def _committed(checkpoint: Path) -> int:
    """The last batch that bronze has."""
    return max((int(one.name) for one in checkpoint.glob("commits/*") if one.name.isdecimal()), default=-1)


def _progress(run: Supervised, checkpoint: Path) -> None:
    before, until = _committed(checkpoint), time.monotonic() + _PATIENCE
    while _committed(checkpoint) <= before:
        assert time.monotonic() < until, f"no batch of bronze in {_PATIENCE:.0f} s; the run ended {dict(run.ended)}"
        time.sleep(0.1)


def _wrong(config: Path, writers: Writers, session: Callable[[], SparkSession]) -> list[str]:
    """What is not as it must be, once the rest has been read, and nobody writes any more."""
    command, wrong = [sys.executable, "-m", "lakehouse_cdc"], []
    arguments = ["run", "--once"], ["verify"], ["verify", "--layer", "bronze"]
    for words in arguments:
        done = subprocess.run([*command, *words, "-c", str(config), "--json"], capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"{' '.join(words)} ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        elif words[0] == "verify" and {*json.loads(done.stdout)["tables"]} != _TABLES:
            wrong.append(f"{' '.join(words)} has compared other tables: {done.stdout[-2000:]}")
    with closing(Pipeline.from_yaml(config)) as pipeline:
        bronze = session().read.format("delta").load(str(pipeline.layout.changes)).persist()
        keyed = bronze.selectExpr("source_table", "op", "to_json(key) AS key", "seq")
        if (twice := keyed.count() - keyed.distinct().count()) != 0:
            wrong.append(f"{twice} events are in bronze more than once")
        rows = bronze.where("source_table = 'shop.counters' AND op IN ('c', 'u', 'r')")
        held = [(r[0], r[1], r[2]) for r in rows.selectExpr("op", "after:id::int", "after:n::int").collect()]
        bronze.unpersist()
    return wrong + misfits(held, writers.source())
