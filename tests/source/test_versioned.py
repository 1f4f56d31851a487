"""MariaDB's system-versioned tables: bronze holds the current rows, whatever becomes of those that have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_cdc.testing import MySqlServer
from lakehouse_cdc.testing.versions import MARIADB
from tests.support.servers import row_metadata
from tests.support.source.play import play
from tests.support.source.world import KEYLESS, PERIOD, UNIQUE, VERSIONED

pytestmark = [pytest.mark.every_server, pytest.mark.parametrize("any_server", MARIADB, indirect=True)]

SESSION = ", time_zone = '+00:00', system_versioning_alter_history = KEEP"
KINDS = [(VERSIONED, "int"), (PERIOD, "few", "general_ci"), (VERSIONED, UNIQUE, "bin"), (PERIOD, KEYLESS, "few")]


@pytest.mark.parametrize("metadata", ["FULL", "least"])
def test_every_offset_is_exact(any_server: MySqlServer, tmp_path: Path, seed: int, metadata: str) -> None:
    """With random writes during each phase of the snapshot, DELETE HISTORY among them."""
    with row_metadata(any_server, metadata):
        play(any_server, tmp_path, KINDS, seed, session=SESSION)
