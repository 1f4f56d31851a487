"""Faults around a pipeline under writes, for as long as is wanted: `uv run python -m tests.faults`.

It prints how many of each kind were made, and what is wrong at the end; exit code 1 where something is.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path

from lakehouse_cdc.runtime.session import local_session
from lakehouse_cdc.testing import VERSIONS, MySqlServer
from lakehouse_cdc.workers.launcher import programs
from tests.faults.under_writes import play

parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Faults around a pipeline under writes.")
parser.add_argument("--server", choices=VERSIONS, default="mysql-8.0", help="the source (mysql-8.0)")
parser.add_argument("--faults", type=int, default=1000, help="how many are made (1000)")
parser.add_argument("--minutes", type=float, default=float("inf"), help="no more are made after so many")
parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="of all that is drawn")
asked = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was mounted, and what was started, ends in any case
print(f"seed {asked.seed}", file=sys.stderr, flush=True)
with tempfile.TemporaryDirectory(prefix="faults-") as folder, MySqlServer.start(version=asked.server) as server:
    outcome = play(
        server, Path(folder), faults=asked.faults, seed=asked.seed, seconds=60 * asked.minutes,
        session=lambda: local_session("faults", python=programs()),
    )  # fmt: skip
print(outcome)
sys.exit(bool(outcome.wrong))
