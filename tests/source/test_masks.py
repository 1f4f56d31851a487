"""Masks on real servers: no clear text in bronze, by whatever way a row or a schema comes there."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.model.changelog import Change, Op, fold, invalid
from lakehouse_cdc.source.requests.requests import Signals
from lakehouse_cdc.source.test_hooks import Step
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import require_generated_columns_in_the_log, row_metadata
from tests.support.source import types_table
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage, on_stage
from tests.support.source.types_table import Typed, through_the_binlog

SALT = "a salt that nobody knows"
MASKS = {"email": "hash", "Phone": {"keep_last": 4}, "notes": None}
CLEAR = ("clear", "näher", "777777")  # a part of each secret, and of nothing else


def digest(text: str | bytes) -> str:
    return hmac.new(SALT.encode(), text if isinstance(text, bytes) else text.encode(), hashlib.sha256).hexdigest()


def row(i: int) -> dict[str, str]:
    return {"email": f"clear{i}@example.org", "phone": f"clear/é{i:04}", "notes": f"näher {i}"}


def masked(i: int) -> dict[str, Any]:
    """What bronze may hold of that row."""
    return {"email": digest(row(i)["email"]), "phone": "*" * 7 + f"{i:04}", "notes": None}


def driver(stage: Stage, masks: dict[str, Any] | None = None, salt: str = SALT) -> Driver:
    return stage.driver(masks=json.dumps({stage.name(): MASKS if masks is None else masks}), maskSecret=salt)


def create(stage: Stage) -> None:
    stage.run(
        "CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(80), phone VARCHAR(30), notes TEXT, n INT)"
        " CHARACTER SET utf8mb4"
    )


def insert(stage: Stage, i: int, **names: str) -> None:
    """`names`: what the columns are called now."""
    into = ", ".join(names.get(name, name) for name in row(i))
    stage.run(f"INSERT INTO t (id, {into}) VALUES ({i}, %s, %s, %s)", [*row(i).values()])


def image(change: Change) -> dict[str, Any]:
    return dict(change.after)


def rows(driver: Driver) -> list[dict[str, Any]]:
    """The rows of bronze in their order, images after; those that are gone aside."""
    return [image(c) for c in sorted(driver.log, key=lambda c: c.seq) if c.op in (Op.READ, Op.INSERT, Op.UPDATE)]


def require_none_in_clear(driver: Driver, batches: list[pa.RecordBatch], folder: Path) -> None:
    """Neither in a byte of bronze, nor in what lies beside the checkpoint."""
    kept = "\n".join(path.read_text(encoding="utf-8") for path in folder.iterdir() if path.is_file()) + json.dumps(
        driver.offset
    )
    held = b"\n".join(kept.encode().splitlines() + [buffer.to_pybytes() for b in batches for buffer in buffers(b)])
    assert len(batches) > 0
    for secret in (*CLEAR, SALT):
        assert secret.encode() not in held, secret


def buffers(batch: pa.RecordBatch) -> list[pa.Buffer]:
    return [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """All that drivers read, as Arrow has it."""
    found: list[pa.RecordBatch] = []
    plain: Callable[[Driver], list[pa.RecordBatch]] = Driver.read

    def noting(driver: Driver) -> list[pa.RecordBatch]:
        batches = plain(driver)
        found.extend(batches)
        return batches

    monkeypatch.setattr(Driver, "read", noting)
    return found


@pytest.mark.one_server
@pytest.mark.parametrize("metadata", ["FULL", "least"])
def test_no_clear_text_by_any_way(
    any_server: MySqlServer, any_database: str, tmp_path: Path, read: list[pa.RecordBatch], metadata: str
) -> None:
    for stage in on_stage(any_server, any_database, tmp_path):
        with row_metadata(stage.server, metadata):
            create(stage)
            insert(stage, 1)
            one = driver(stage)
            stage.snapshot(one)
            insert(stage, 2)
            stage.run("UPDATE t SET email = %s, phone = %s, notes = %s WHERE id = 2", [*row(3).values()])
            stage.run("UPDATE t SET n = 5, email = NULL WHERE id = 1")
            stage.drain_twice(one)
            found = rows(one)
            assert [{k: r[k] for k in masked(1)} for r in found] == [
                masked(1), masked(2), masked(3), {**masked(1), "email": None},
            ]  # fmt: skip
            stage.run("DELETE FROM t")
            stage.drain(one)
            assert [dict(c.before)["email"] for c in one.log if c.op is Op.DELETE] == [None, masked(3)["email"]]

            # the mask goes with the column, wherever that goes, and one that comes under its name has it as well
            insert(stage, 4)
            stage.run("ALTER TABLE t CHANGE email mail VARCHAR(90) CHARACTER SET utf8mb4")
            insert(stage, 5, email="mail")
            stage.drain(one)
            assert rows(one)[-1] == {"id": 5, "n": None, "mail": masked(5)["email"], **without(masked(5), "email")}
            stage.run("ALTER TABLE t ADD email VARCHAR(80) CHARACTER SET utf8mb4 DEFAULT 'clear default'")
            stage.run("INSERT INTO t (id, mail, email) VALUES (6, 'clear mail', 'clear email')")
            stage.drain(one)
            assert emails(one) == {
                4: (masked(4)["email"], digest("clear default")),
                5: (masked(5)["email"], digest("clear default")),
                6: (digest("clear mail"), digest("clear email")),
            }
            stage.run("ALTER TABLE t DROP phone, MODIFY notes VARCHAR(99)")
            stage.run("ALTER TABLE t ADD phone BIGINT NOT NULL DEFAULT 7777771234")
            stage.run("INSERT INTO t (id, phone, notes) VALUES (7, 7777775678, 'näher')")
            stage.drain(one)
            assert {i: image["phone"] for i, image in now(one).items()} == {
                4: "******1234", 5: "******1234", 6: "******1234", 7: "******5678"
            }  # fmt: skip
            assert {image["notes"] for image in now(one).values()} == {None}
            assert invalid(one.log) is None
            require_none_in_clear(one, read, stage.folder)


def without(image: dict[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in image.items() if k != name}


def now(driver: Driver) -> dict[int, dict[str, Any]]:
    """What silver would hold, by id."""
    return {dict(image)["id"]: dict(image) for _, image in fold(driver.log).values()}


def emails(driver: Driver) -> dict[int, tuple[str, str]]:
    return {i: (image["mail"], image["email"]) for i, image in now(driver).items()}


@pytest.mark.one_server
def test_every_type_has_one_hash_from_the_snapshot_and_from_the_binlog(
    any_server: MySqlServer, any_database: str, tmp_path: Path
) -> None:
    for stage in on_stage(any_server, any_database, tmp_path):
        columns = types_table.every(stage.connection)
        names = [c.name for c in columns]
        stage.run(types_table.ddl("t", columns))
        stage.run("SET time_zone = '+00:00'")
        for values in types_table.rows(columns, seed=3):
            stage.run(f"INSERT INTO t (id, n, {', '.join(f'`{n}`' for n in names)}) VALUES {values}")
        hashed = {n: "hash" for c, n in zip(columns, names, strict=True) if "VECTOR" not in c.declared.upper()}
        if any_server.version == "mariadb-11":  # it does not log generated columns
            stage.run("ALTER TABLE t DROP COLUMN twice")
        plain, one = stage.driver(), driver(stage, hashed)
        for each in (plain, one):
            stage.snapshot(each)
        through_the_binlog(stage, columns)
        stage.drain(one)
        texts = printed(stage, [n for n, c in zip(names, columns, strict=True) if c.shown == Typed.shown])
        first = {image(c)["id"]: image(c) for c in one.log if c.op is Op.READ}
        logged = {dict(c.before)["id"]: dict(c.before) for c in one.log if c.op is Op.UPDATE}
        clear = {image["id"]: image for image in rows(plain)}
        assert len(first) > 3
        compared = 0
        for i, found in first.items():
            for name in hashed:
                assert found[name] == logged[i][name], (name, i)
                text = texts[i].get(name, clear[i][name])
                if isinstance(text, str | bytes):
                    assert found[name] == digest(text), (name, i, text)
                    compared += 1
                else:
                    assert (found[name] is None) == (clear[i][name] is None), name
        assert compared > 5 * len(first)


def printed(stage: Stage, names: list[str]) -> dict[int, dict[str, str | None]]:
    """What the server prints for numbers and times, at UTC."""
    shown = ", ".join(f"CAST(`{name}` AS CHAR)" for name in names)
    return {i: dict(zip(names, texts, strict=True)) for i, *texts in stage.run(f"SELECT id, {shown} FROM t")}


def test_rows_of_windows_and_of_xa_transactions_are_masked(
    stage: Stage, at: Callable[..., None], read: list[pa.RecordBatch]
) -> None:
    create(stage)
    insert(stage, 1)
    insert(stage, 2)
    one = driver(stage)
    # the SELECT sees another row than stood at W: that one comes from an image of the binlog
    at(Step.BEFORE_SELECT, lambda: stage.run("UPDATE t SET email = 'clear later', notes = 'näher' WHERE id = 1"))
    one.batch()
    assert {k: now(one)[1][k] for k in masked(1)} == masked(1)
    stage.run("XA START 'masks'")
    insert(stage, 3)
    for end in ("XA END 'masks'", "XA PREPARE 'masks'", "XA COMMIT 'masks'"):
        stage.run(end)
    stage.drain(one)
    assert {k: now(one)[3][k] for k in masked(3)} == masked(3)
    assert now(one)[1]["email"] == digest("clear later")
    require_none_in_clear(one, read, stage.folder)


def test_another_salt_and_masks_of_no_column_are_refused_at_once(stage: Stage) -> None:
    create(stage)
    insert(stage, 1)
    one = driver(stage)
    stage.drain(one)
    insert(stage, 2)
    one.restart()
    assert one.plan()  # a batch that is planned, and executed under another salt
    one.options["maskSecret"] = "another salt of 16"
    with pytest.raises(DefiniteError, match="hashed under another salt than") as caught:
        one.read()
    assert "salt of 16" not in str(caught.value)
    one.options["maskSecret"] = SALT
    stage.drain(one)
    for masks, salt, said in (
        (MASKS, "another salt of 16", "source.mask_salt is another one than before"),
        ({**MASKS, "e_mail": None}, SALT, "the masked column e_mail does not exist"),
    ):
        again = driver(stage, masks, salt)
        again.offset = one.offset
        with pytest.raises(DefiniteError, match=said) as caught:
            again.plan()
        assert "salt of 16" not in str(caught.value)


def test_a_renamed_column_is_masked_by_its_new_name_in_the_next_run(stage: Stage) -> None:
    create(stage)
    one = driver(stage)
    stage.drain(one)
    stage.run("ALTER TABLE t RENAME COLUMN notes TO remarks")
    stage.drain(one)
    renamed = driver(stage, {**without(MASKS, "notes"), "remarks": None})
    renamed.offset = one.offset
    insert(stage, 1, notes="remarks")
    stage.drain(renamed)
    assert image(renamed.log[-1])["remarks"] is None


def test_a_column_that_comes_under_a_masks_name_is_read_again(stage: Stage) -> None:
    create(stage)
    insert(stage, 1)
    stage.run("ALTER TABLE t ADD secret INT")
    one = driver(stage, {"secret": "hash"})
    stage.drain(one)
    stage.run("ALTER TABLE t DROP secret, RENAME COLUMN phone TO secret")
    stage.drain(one)
    assert now(one)[1]["secret"] == digest(row(1)["phone"])
    assert sum(c.op is Op.READ for c in one.log) == 2


def test_a_masked_column_that_may_have_another_name_now_stops_its_table(
    stage: Stage, read: list[pa.RecordBatch]
) -> None:
    """A tool that copies the table says nowhere which column is which."""
    create(stage)
    insert(stage, 1)
    one = driver(stage)
    stage.drain(one)
    stage.run("CREATE TABLE _t_gho LIKE t")
    stage.run("ALTER TABLE _t_gho CHANGE email mail VARCHAR(80) CHARACTER SET utf8mb4")
    stage.run("INSERT INTO _t_gho SELECT * FROM t")
    stage.run("RENAME TABLE t TO _t_del, _t_gho TO t")
    insert(stage, 2, email="mail")
    stage.drain(one)
    state = one.offset["tables"][stage.name()]
    assert "the masked column email of" in state["quarantined"]
    one.options["masks"] = json.dumps({stage.name(): {**without(MASKS, "email"), "mail": "hash"}})
    one.restart()
    Signals(one.options["schemaFolder"]).request(stage.name())
    stage.drain(one)
    assert now(one)[2]["mail"] == digest(row(2)["email"])
    require_none_in_clear(one, read, stage.folder)


def swap(stage: Stage, before: str, after: str) -> None:
    """Replace `t` as tools do that change a table in a copy: its column has another name then."""
    stage.run("CREATE TABLE _t_gho LIKE t")
    stage.run(f"ALTER TABLE _t_gho CHANGE {before} {after} VARCHAR(80) CHARACTER SET utf8mb4")
    stage.run("INSERT INTO _t_gho SELECT * FROM t")
    stage.run("RENAME TABLE t TO _t_del, _t_gho TO t")
    stage.run("DROP TABLE _t_del")


@pytest.mark.parametrize("backlog", [True, False])
def test_a_masked_column_that_has_another_name_after_two_copies_stops_its_table(
    stage: Stage, read: list[pa.RecordBatch], backlog: bool
) -> None:
    """The second one replaces a table that is quarantined, or gone where nobody could see what came in its place."""
    create(stage)
    insert(stage, 1)
    one = driver(stage)
    stage.drain(one)
    swap(stage, "email", "mail")
    if not backlog:
        stage.drain(one)
    swap(stage, "mail", "post")
    insert(stage, 2, email="post")
    stage.drain(one)
    assert "the masked column email of" in one.offset["tables"][stage.name()]["quarantined"]
    one.options["masks"] = json.dumps({stage.name(): {**without(MASKS, "email"), "post": "hash"}})
    one.restart()
    Signals(one.options["schemaFolder"]).request(stage.name())
    stage.drain(one)
    assert now(one)[2]["post"] == digest(row(2)["email"])
    require_none_in_clear(one, read, stage.folder)


def test_a_column_made_of_a_renamed_masked_one_stops_its_table(any_stage: Stage) -> None:
    """The user's configuration names the old one alone."""
    stage = any_stage
    require_generated_columns_in_the_log(stage.server)
    create(stage)
    insert(stage, 1)
    found = driver(stage)
    stage.drain(found)
    stage.run("ALTER TABLE t CHANGE email contact VARCHAR(80)")
    insert(stage, 2, email="contact")
    stage.drain(found)
    stage.run("ALTER TABLE t ADD shown VARCHAR(80) AS (UPPER(contact)) STORED")
    insert(stage, 3, email="contact")
    stage.drain(found)
    assert "generated from a masked one" in found.offset["tables"][stage.name()]["quarantined"]
    assert all("shown" not in image for image in rows(found))
    assert "CLEAR3@" not in str(rows(found))
    assert {image["id"] for image in rows(found)} == {1, 2}


def test_statements_are_shown_without_constants(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    create(stage)
    one = driver(stage)
    stage.drain(one)
    stage.run("SET SESSION binlog_format = 'STATEMENT'")
    insert(stage, 1)
    stage.run("SET SESSION binlog_format = 'ROW'")
    with caplog.at_level("DEBUG"):
        stage.drain_twice(one)  # the table is read again
    assert {image["id"] for image in rows(one)} == {1}
    assert not any(secret in f"{caplog.text}{rows(one)}" for secret in CLEAR)


def test_a_hash_without_a_salt_is_refused(stage: Stage) -> None:
    for salt, said in (("", "there is no salt"), ("hunter2", "is too short")):
        with pytest.raises(ConfigError, match=said) as caught:
            driver(stage, salt=salt)
        assert not salt or salt not in str(caught.value)


def test_the_salt_is_not_shown(stage: Stage) -> None:
    assert SALT not in repr(driver(stage).reader._options)
