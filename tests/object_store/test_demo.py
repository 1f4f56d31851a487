"""`lakehouse-cdc demo` with its tables in a bucket: verified, and continued by a second one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakehouse_cdc.testing.shop import TABLES
from tests.support.s3_pipelines import SECRET, shown
from tests.support.s3_server import S3Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def demo(folder: Path, s3: S3Server, bucket: str) -> dict[str, Any]:
    """In a process of its own, with the keys in its environment."""
    keys = {"AWS_ACCESS_KEY_ID": "an-access-key", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    where = ["--path", f"s3://{bucket}/a/demo", "--endpoint", s3.url]
    command = [sys.executable, "-m", "lakehouse_cdc.cli.main", "demo", "--rows", "2000", "--json", *where]
    done = subprocess.run(command, cwd=folder, env=os.environ | keys, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["verified"]
    assert data["lakehouse"] == f"s3a://{bucket}/a/demo"
    return data


def test_the_demo_verifies_in_a_bucket_and_a_second_one_continues(s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.bucket()
    first = demo(tmp_path, s3, bucket)
    assert first["resumed"] is False
    assert {*first["tables"]} == {f"shop.{name}" for name in TABLES}
    second = demo(tmp_path, s3, bucket)
    assert second["resumed"] is True
    assert sum(t.get("r", 0) for run in second["runs"] for t in run["tables"].values()) == 0
    commits = s3.commits(bucket)
    assert len(commits) > 20
    assert {one.condition for one in commits} == {"*"}
    assert [path.name for path in tmp_path.iterdir()] == ["lakehouse-demo"]
    assert SECRET not in shown(tmp_path)
