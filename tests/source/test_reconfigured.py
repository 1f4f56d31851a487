"""A changed configuration is as an ALTER: exact before and after it, and no row under settings that were taken back."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from lakehouse_cdc.errors import ConfigError, DefiniteError, codes
from lakehouse_cdc.model.changelog import Op, fold
from lakehouse_cdc.model.offset import LONGEST_TURN
from tests.remedies import remedy
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage

SALT = "a salt that nobody knows"
# settings of the tables t and u, any of which may follow any other
SETTINGS: dict[str, dict[str, str]] = {
    "plain": {},
    "without v": {"exclude": '{"*.t": ["v"]}'},
    "only w": {"include": '{"*.t": ["W"]}'},
    "null": {"masks": '{"*.t": {"v": null}}'},
    "hash": {"masks": '{"*.?": {"v": "hash"}}', "maskSecret": SALT},
    "last": {"masks": '{"*.t": {"v": {"keep_last": 2}}}'},
    "text": {"types": '{"*.t": {"d": "text"}}'},
    "null dates": {"zeroDates": "null"},
    "text dates": {"zeroDates": "text"},
    "lakeflow": {"typeMap": "lakeflow"},
    "two": {"exclude": '{"*.u": ["w"]}', "masks": '{"*.t": {"v": null}}', "types": '{"*.u": {"d": "text"}}'},
}


def create(stage: Stage, rows: int = 12) -> None:
    for table in "tu":
        stage.run(f"CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40), w INT, d DATE)")
        for i in range(rows):
            stage.run(f"INSERT INTO {table} VALUES ({10 * i}, 'clear {i}', {i}, '2024-01-{1 + i % 28:02}')")


def begun(stage: Stage, settings: dict[str, str]) -> Driver:
    driver = Driver({**stage.options(maskSecret=SALT), **settings})
    stage.drivers.append(driver)
    return driver


def under(stage: Stage, driver: Driver, settings: dict[str, str], **more: Any) -> Driver:
    """The stream, continued by a new process with other settings."""
    driver.stop()
    again = Driver({**stage.options(maskSecret=SALT), **settings}, offset=driver.offset, log=driver.log, **more)
    stage.drivers.append(again)
    return again


def images(driver: Driver, table: str) -> Counter[Any]:
    return Counter(image for (name, _), (_, image) in fold(driver.log).items() if name == table)


def require_as_if_begun_now(stage: Stage, driver: Driver, settings: dict[str, str], folder: Path) -> None:
    """What was emitted folds to what a stream folds to that begins now, with these settings."""
    now = Driver({**stage.options(maskSecret=SALT), **settings, "schemaFolder": str(folder)})
    stage.drivers.append(now)
    stage.snapshot(now)
    now.stop()
    for table in (stage.name("t"), stage.name("u")):
        assert images(driver, table) == images(now, table), table


def changes_of(driver: Driver, table: str) -> list[dict[str, Any]]:
    """What the s rows of the table say, but for its first."""
    return [dict(c.after) for c in driver.log if c.op is Op.SCHEMA and c.table == table and c.before is not None]


@pytest.mark.parametrize("limit", [1, pytest.param(None, marks=pytest.mark.long)])
@pytest.mark.parametrize(("before", "now"), [
    ("plain", "without v"), ("without v", "plain"), ("plain", "hash"), ("null", "last"), ("text dates", "plain"),
    *(pytest.param(*one, marks=pytest.mark.long) for one in (
        ("plain", "only w"), ("hash", "plain"), ("plain", "text"), ("plain", "lakeflow"), ("null dates", "two"),
    )),
])  # fmt: skip
def test_it_is_followed_where_the_stream_is(
    stage: Stage, tmp_path: Path, before: str, now: str, limit: int | None
) -> None:
    """With rows written before the process ended, that are read by the next one."""
    create(stage)
    driver = begun(stage, SETTINGS[before])
    stage.drain(driver)
    emitted = len(driver.log)
    for table in "tu":
        stage.run(f"UPDATE {table} SET v = 'clear again', w = 7 WHERE id < 50")
        stage.run(f"DELETE FROM {table} WHERE id = 60")
    again = under(stage, driver, SETTINGS[now], **({} if limit is None else {"limit": ReadMaxRows(limit)}))
    stage.drain_twice(again)
    require_as_if_begun_now(stage, again, SETTINGS[now], tmp_path / "now")
    assert len({(c.table, c.seq, c.op, c.key) for c in again.log}) == len(again.log)
    later = sorted(c.seq for c in again.log[emitted:])
    assert later[0] > max(c.seq for c in again.log[:emitted])
    if now in ("hash", "last", "null"):
        assert not [c for c in again.log[emitted:] if c.table == stage.name() and "clear again" in repr(c.after)]


def test_columns_that_are_left_out_have_nothing_read_again(stage: Stage) -> None:
    create(stage)
    driver = stage.driver()
    stage.drain(driver)
    emitted = len(driver.log)
    stage.run("UPDATE t SET v = 'clear again' WHERE id = 0")
    again = under(stage, driver, SETTINGS["without v"])
    stage.drain(again)
    [schema, update] = again.log[emitted:]
    assert (schema.op, schema.table) == (Op.SCHEMA, stage.name())
    assert dict(update.after).keys() == {"id", "w", "d"}


def test_what_is_the_same_by_other_words_changes_nothing(stage: Stage) -> None:
    create(stage)
    driver = begun(stage, SETTINGS["without v"])
    stage.drain(driver)
    emitted = len(driver.log)
    again = under(stage, driver, {"exclude": json.dumps({stage.name(): ["V"], "*.t": ["v"]})})
    stage.drain(again)
    assert "settings" not in again.offset
    assert len(again.log) == emitted


def test_a_column_keeps_what_it_had_under_another_name(stage: Stage) -> None:
    """The configuration names neither of the two columns by the name that it has now."""
    create(stage)
    settings = {"exclude": '{"*.t": ["d"]}', "masks": '{"*.t": {"v": null}}'}
    driver = begun(stage, settings)
    stage.drain(driver)
    stage.run("ALTER TABLE t RENAME COLUMN v TO mail, RENAME COLUMN d TO day")
    stage.run("INSERT INTO t VALUES (1, 'clear', 1, '2024-02-02')")
    stage.drain(driver)
    driver.restart()
    assert not driver.plan(), "nothing to do, and nothing that is refused"
    stage.run("INSERT INTO t VALUES (2, 'clear', 2, '2024-02-02')")
    more = {"types": '{"*.u": {"d": "text"}}'}
    with pytest.raises(ConfigError, match="the excluded column d does not exist"):
        under(stage, driver, {**settings, **more}).plan()
    again = under(stage, driver, {"exclude": '{"*.t": ["day"]}', "masks": '{"*.t": {"mail": null}}', **more})
    stage.drain(again)
    assert not [c for c in again.log if c.table == stage.name() and ("clear" in repr(c) or "2024" in repr(c.after))]
    assert {image["id"] for image in map(dict, images(again, stage.name()))} >= {1, 2}
    # named as it is now, it is let go
    last = under(stage, again, {"masks": '{"*.t": {"mail": null}}'})
    stage.drain(last)
    assert all("day" in dict(image) for image in images(last, stage.name()))


def test_a_table_that_is_not_selected_any_more_stays_and_comes_back_exact(stage: Stage) -> None:
    create(stage)
    driver = stage.driver()
    stage.drain(driver)
    before = images(driver, stage.name("u"))
    stage.run("UPDATE u SET w = 100")
    stage.run("UPDATE t SET w = 100")
    again = under(stage, driver, {"tables": stage.name()})
    stage.drain_twice(again)
    stage.same_rows(again)
    assert images(again, stage.name("u")) == before
    [left] = changes_of(again, stage.name("u"))
    assert left["dropped"]
    assert left["statement"] is None
    stage.run("DELETE FROM u WHERE id < 50")
    back = under(stage, again, {})
    stage.drain_twice(back)
    stage.run("UPDATE u SET w = 5 WHERE id = 90")
    stage.drain(back)
    stage.same(back, "t", "u")


@pytest.mark.long
def test_while_a_table_is_read(stage: Stage, tmp_path: Path) -> None:
    for batches in range(1, 6):
        for table in "tu":
            stage.run(f"DROP TABLE IF EXISTS {table}")
        create(stage, rows=30)
        driver = stage.driver(schemaFolder=str(tmp_path / f"read {batches}"))
        driver.batches(batches)
        stage.run("UPDATE t SET v = 'clear again', w = 7")
        settings = {**SETTINGS["two"], "schemaFolder": str(tmp_path / f"read {batches}")}
        again = under(stage, driver, settings)
        stage.snapshot(again)
        stage.drain_twice(again)
        require_as_if_begun_now(stage, again, SETTINGS["two"], tmp_path / f"now {batches}")


@remedy(codes.SEQ_OVERFLOW)
def test_a_position_has_some_turns_and_no_more(stage: Stage, tmp_path: Path) -> None:
    """On a source where nobody writes."""
    create(stage)
    driver = stage.driver()
    stage.drain(driver)
    names = ["without v", "plain"]
    for turn in range(LONGEST_TURN):
        driver = under(stage, driver, SETTINGS[names[turn % 2]])
        stage.drain(driver)
    require_as_if_begun_now(stage, driver, SETTINGS["plain"], tmp_path / "now")
    with pytest.raises(DefiniteError, match="commit any transaction on the source") as caught:
        under(stage, driver, SETTINGS["without v"]).plan()
    assert caught.value.code is codes.SEQ_OVERFLOW
    stage.run("CREATE TABLE other (id INT PRIMARY KEY)")
    again = under(stage, driver, SETTINGS["plain"])
    stage.drain(again)
    last = under(stage, again, SETTINGS["without v"])
    stage.drain(last)
    require_as_if_begun_now(stage, last, SETTINGS["without v"], tmp_path / "last")


def test_at_the_position_of_a_change_of_the_schema(stage: Stage, tmp_path: Path) -> None:
    create(stage)
    driver = stage.driver()
    stage.drain(driver)
    stage.run("ALTER TABLE t ADD COLUMN n INT")
    stage.drain(driver)
    again = under(stage, driver, SETTINGS["without v"])
    stage.drain_twice(again)
    require_as_if_begun_now(stage, again, SETTINGS["without v"], tmp_path / "now")
    seqs = [c.seq for c in again.log if c.op is Op.SCHEMA and c.table == stage.name()]
    assert len(set(seqs)) == len(seqs) == 3


def test_another_salt_is_refused(stage: Stage) -> None:
    create(stage)
    driver = begun(stage, SETTINGS["hash"])
    stage.drain(driver)
    with pytest.raises(DefiniteError, match=r"Set source\.mask_salt back"):
        under(stage, driver, {**SETTINGS["hash"], "maskSecret": SALT + "!"}).plan()
    stage.run("UPDATE t SET v = 'clear again'")
    with pytest.raises(DefiniteError, match="put the salt back"):  # what is hidden is hashed until the end of the log
        under(stage, driver, {"maskSecret": ""}).batch()


def test_another_key_of_rows_without_one(stage: Stage, tmp_path: Path) -> None:
    """The table is read again, and folds by the new key; taken back, it has none."""
    stage.run("CREATE TABLE k (a INT NOT NULL, b INT NOT NULL)")
    driver = begun(stage, {"keys": '{"*.k": ["a"]}'})
    stage.run("INSERT INTO k VALUES (1, 2), (2, 1)")
    stage.drain(driver)
    driver = under(stage, driver, {"keys": '{"*.?": ["A"]}'})
    stage.drain(driver)
    assert changes_of(driver, stage.name("k")) == []
    for number, key in enumerate((["b"], ["b", "a"], []), start=3):
        settings = {"keys": json.dumps({"*.k": key})} if key else {}
        driver = under(stage, driver, settings)
        stage.run(f"INSERT INTO k VALUES ({number}, {number})")
        stage.run(f"UPDATE k SET b = b + 10 WHERE a = {number - 1}")
        stage.drain(driver)
        assert changes_of(driver, stage.name("k"))[-1]["key"] == tuple(key)
        if key:
            keys: list[Any] = [k for (name, k), _ in fold(driver.log).items() if name == stage.name("k")]
            held = {tuple(value for _, value in named) for named in keys}
            wanted = stage.run(f"SELECT {', '.join(sorted(key))} FROM k")
            assert held == {tuple(row) for row in wanted}


def test_an_earlier_release_left_no_settings(stage: Stage) -> None:
    """What would reveal less is refused until this release has planned a batch under the old ones."""
    create(stage)
    driver = stage.driver()
    stage.drain(driver)
    for path in stage.folder.glob("settings-*"):
        path.unlink()
    for i in range(3):  # the end of the log is some batches away
        stage.run(f"UPDATE t SET w = {i + 100}")
    with pytest.raises(DefiniteError, match=r"put .* back as they were"):
        under(stage, driver, SETTINGS["without v"], limit=ReadMaxRows(1)).plan()
    stage.drain(under(stage, driver, {}))


def statement(rng: random.Random, step: int) -> str:
    table = rng.choice("tu")
    return rng.choice([
        f"INSERT INTO {table} (id, v, w, d) VALUES ({rng.randint(10**4, 10**6)}, 'clear', 1, '2024-05-05')",
        f"UPDATE {table} SET v = 'clear {rng.random()}', w = w + 1 WHERE id % 3 = 1",
        f"DELETE FROM {table} WHERE id % 5 = {rng.randrange(5)}",
        f"ALTER TABLE {table} ADD COLUMN n{step} INT DEFAULT {rng.randrange(9)}",
    ])  # fmt: skip


@pytest.mark.parametrize("histories", [3, pytest.param(60, marks=pytest.mark.long)])
def test_random_settings_at_random_moments(stage: Stage, tmp_path: Path, seed: int, histories: int) -> None:
    rng = random.Random(seed)
    for history in range(histories):
        for table in "tu":
            stage.run(f"DROP TABLE IF EXISTS {table}")
        create(stage, rows=rng.randint(0, 12))
        folder = str(tmp_path / f"{history}")
        settings = SETTINGS[rng.choice(list(SETTINGS))]
        driver = under(stage, stage.driver(schemaFolder=folder), {**settings, "schemaFolder": folder})
        for step in range(rng.randint(3, 9)):
            if rng.random() < 0.4:
                settings = SETTINGS[rng.choice(list(SETTINGS))]
                limits: dict[str, Any] = {} if rng.random() < 0.5 else {"limit": ReadMaxRows(rng.randint(1, 9))}
                driver = under(stage, driver, {**settings, "schemaFolder": folder}, **limits)
                if rng.random() < 0.5:
                    driver.batch(between=lambda: None)
            elif rng.random() < 0.3:
                driver.batches(rng.randint(1, 3))
            else:
                stage.run(statement(rng, step))
        stage.drain_twice(driver)
        stage.snapshot(driver)
        stage.drain_twice(driver)
        require_as_if_begun_now(stage, driver, settings, tmp_path / f"{history} now")
        keyed = [(c.table, c.seq, c.op, c.key) for c in driver.log]
        assert len(set(keyed)) == len(keyed)


def test_a_quarantined_table_is_left_out_and_comes_back(stage: Stage) -> None:
    """Nobody is told of it any more until it is selected again; then it is read again."""
    create(stage)
    driver = begun(stage, {})
    stage.snapshot(driver)
    stage.run("ALTER TABLE t ENGINE = BLACKHOLE")
    stage.run("UPDATE u SET w = 7")
    stage.drain(driver)
    assert "quarantined" in driver.offset["tables"][stage.name("t")]
    driver = under(stage, driver, {"tables": f"{stage.database}.*,!{stage.name('t')}"})
    stage.run("UPDATE u SET w = 8")
    stage.drain(driver)
    stage.same_rows(driver, "u")
    assert "quarantined" not in driver.offset["tables"][stage.name("t")]
    stage.run("ALTER TABLE t ENGINE = InnoDB")
    driver = under(stage, driver, {})
    stage.run("UPDATE t SET w = 9")
    stage.drain(driver)
    stage.same(driver, "t", "u")
    assert sum(c.op is Op.READ for c in driver.log if c.table == stage.name("u")) == 12
