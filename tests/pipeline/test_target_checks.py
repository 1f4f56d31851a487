"""`doctor` looks at the folders before anything is written to them."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.pipeline.target_checks import checks

pytestmark = pytest.mark.unit
Usage = namedtuple("Usage", "free")


def found(path: Path, *, silver: str = "silver", size: int = 0) -> list[Finding]:
    """Of a pipeline `shop` with the tables shop.a and shop.b; what is in order is left out."""
    layout = Layout("shop", "bronze", silver, path=str(path))
    return [f for f in checks(layout, path / "_checkpoints" / "shop", ["shop.a", "shop.b"], size) if f.severity != "ok"]


def table(path: Path, owner: str) -> None:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    actions = [{"commitInfo": {}}, {"metaData": {"configuration": {"lakehouse_cdc.pipeline": owner} if owner else {}}}]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_folder_that_is_to_be_made_and_our_own_tables_are_in_order(tmp_path: Path) -> None:
    assert found(tmp_path / "new" / "lake") == []
    assert not (tmp_path / "new").exists()
    for name in ("bronze/changes", "bronze/schemas", "silver/ledger", "silver/a"):
        table(tmp_path / "lake" / name, "shop")
    (tmp_path / "lake" / "silver" / "b").mkdir()
    assert found(tmp_path / "lake") == []


@pytest.mark.parametrize(("owner", "said"), [("other", "the pipeline other"), ("", "somebody else")])
@pytest.mark.parametrize("name", ["bronze/changes", "bronze/schemas", "silver/ledger", "silver/b"])
def test_somebody_elses_table(tmp_path: Path, name: str, owner: str, said: str) -> None:
    table(tmp_path / name, owner)
    [finding] = found(tmp_path)
    assert (finding.severity, finding.code, finding.name) == ("error", codes.TABLE_FOREIGN, str(tmp_path / name))
    assert said in finding.what


def test_a_table_whose_log_has_forgotten_its_first_commit_is_not_judged(tmp_path: Path) -> None:
    table(tmp_path / "bronze" / "changes", "other")
    (tmp_path / "bronze" / "changes" / "_delta_log" / f"{0:020}.json").unlink()
    assert found(tmp_path) == []


def test_something_that_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "silver" / "a").mkdir(parents=True)
    (tmp_path / "silver" / "a" / "notes.txt").touch()
    (tmp_path / "silver" / "b").touch()
    findings = found(tmp_path)
    assert {(f.severity, f.code) for f in findings} == {("error", codes.NOT_A_DELTA_TABLE)}
    assert [f.name for f in findings] == [str(tmp_path / "silver" / name) for name in ("a", "b")]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    findings = found(tmp_path / "file" / "lake")
    assert [(f.name, f.severity, f.code) for f in findings] == [
        ("target.path", "error", codes.TARGET_UNWRITABLE), ("target.checkpoints", "error", codes.TARGET_UNWRITABLE)
    ]  # fmt: skip


def test_too_little_room_and_one_schema_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(3_000_000_000))
    assert found(tmp_path, size=1_400_000_000) == []
    [room] = found(tmp_path, size=1_600_000_000)
    assert (room.severity, room.what) == ("warning", f"the tables have about 1.6 GB, and 3.0 GB are free in {tmp_path}")
    [one] = found(tmp_path, silver="Bronze")
    assert (one.name, one.severity) == ("target.silver", "warning")


def test_a_catalog_is_left_to_the_run(tmp_path: Path) -> None:
    assert [*checks(Layout("shop", "bronze", "silver", catalog="main"), tmp_path, ["shop.a"], 1)] == []
