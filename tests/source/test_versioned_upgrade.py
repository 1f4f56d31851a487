"""A server that is upgraded to 11.5 or later: current rows of its system-versioned tables end at another time then."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.testing import MySqlServer
from tests.support.servers import connected, start_or_skip
from tests.support.source.play import images_of
from tests.support.source.stage import Stage


@pytest.mark.long
@pytest.mark.parametrize("born_before", [False, True])
def test_what_an_earlier_server_logged_is_not_taken_for_the_past(tmp_path: Path, born_before: bool) -> None:
    """The log has rows of both servers; a table is captured before the upgrade, or since, from its CREATE on."""
    folder = tmp_path / "server"
    with start_or_skip("mariadb-10.11", folder) as server, closing(connected(server)) as connection:
        connection.cursor().execute("CREATE DATABASE d")
        connection.select_db("d")
        stage = Stage(server, connection, "d", tmp_path / "schemas")
        stage.run("CREATE TABLE other (id INT PRIMARY KEY)")
        create = "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING"
        if born_before:
            stage.run(create)
        driver = stage.driver()
        stage.drain(driver)
        if not born_before:
            stage.run(create)
        stage.run("INSERT INTO t VALUES (1, 1), (2, 1)")
        stage.run("UPDATE t SET v = 2 WHERE id = 1")
        if born_before:
            stage.drain(driver)
            stage.same(driver)
        driver.stop()
    state = folder / "server.json"
    state.write_text(state.read_text().replace("mariadb-10.11", "mariadb-11"))
    with MySqlServer.start(folder, version="mariadb-11") as server, closing(connected(server)) as connection:
        connection.select_db("d")
        stage = Stage(server, connection, "d", tmp_path / "schemas")
        assert not stage.images()
        stage.run("SET system_versioning_alter_history = KEEP")
        stage.run("ALTER TABLE t FORCE")
        assert len(stage.images()) == 2
        driver.restart()
        if born_before:
            stage.drain(driver)
            stage.same(driver)
            stage.run("UPDATE t SET v = 3 WHERE id = 2")
        with pytest.raises(DefiniteError) as caught:
            stage.drain(driver)
        assert (caught.value.code, caught.value.table) == (codes.TABLE_CHANGED, "d.t")
        assert len(images_of("d.t", driver.log)) == (2 if born_before else 0), "nothing was taken for something else"
        driver.stop()
