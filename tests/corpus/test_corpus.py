"""What tools write is followed on every server, live and as a backlog, with whole row metadata and without."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.testing import VERSIONS, MySqlServer
from tests.corpus import FILES, history
from tests.judge.judge import judged, tally
from tests.support.servers import row_metadata

pytestmark = pytest.mark.every_server

OFTEN = 6  # files of the default lane, each on one server; all of them on all servers on demand


def cases() -> Iterator[Any]:
    """Every file on every server; 5.7 has one way alone to log rows."""
    for (n, path), (m, version), metadata in product(enumerate(FILES), enumerate(VERSIONS), ("FULL", "least")):
        if version == "mysql-5.7" and metadata == "FULL":
            continue
        sample = (
            n % (len(FILES) // OFTEN) == 0 and (n // (len(FILES) // OFTEN)) % len(VERSIONS) == m and metadata == "least"
        )
        marks = () if sample else pytest.mark.long
        yield pytest.param(path, version, metadata, id=f"{path.stem}-{version}-{metadata}".lower(), marks=marks)


@pytest.mark.parametrize(("path", "any_server", "metadata"), [*cases()], indirect=["any_server"])
def test_what_tools_write(path: Path, any_server: MySqlServer, metadata: str, tmp_path: Path) -> None:
    written = history(path, any_server.version)
    with row_metadata(any_server, metadata):
        findings = judged(any_server, f"corpus_{path.stem}", tmp_path, written.setup, written.units)
    print(written.tool, any_server.version, metadata, tally(findings))
    assert not [str(finding) for finding in findings if finding.refused]
    assert not [str(finding) for finding in findings if finding.failed]
