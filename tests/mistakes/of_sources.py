"""Mistakes that the source, or the pipeline's view of it, answers."""

from __future__ import annotations

from tests.mistakes.mistake import Mistake

_USER, _TABLES = "mysql://cdc@", '["shop.*"]'


def _doctor(what: str, code: int = 1, **how: object) -> Mistake:
    return Mistake(what, "doctor -c pipeline.yml", code=code, **{"server": True, **how})  # type: ignore[arg-type]


SOURCES = (
    _doctor("a password that is not set", 2, server=False, edits={"env:SHOP_PASSWORD": "env:SHOP_PASWORD"}),
    _doctor("a file with the password that is not there", 2, server=False,
            edits={"env:SHOP_PASSWORD": "file:/run/secrets/shop"}),
    _doctor("a wrong password", 3, edits={"${env:SHOP_PASSWORD}": "${file:password}"}, beside={"password": "hunter2"}),
    _doctor("a password, and a command for it", 2, server=False,
            edits={_TABLES: f"{_TABLES}\n  password_command: [print-token]"}),
    _doctor("a command for the password as in a shell", 2,
            edits={"password: ${env:SHOP_PASSWORD}": 'password_command: ["print-token | head -1"]'}),
    _doctor("an SSH server, and nothing to log in with", 2, server=False,
            edits={_TABLES: f"{_TABLES}\n  ssh: ssh://hopper@127.0.0.1:2222"}),
    _doctor("an initial statement that sets the time zone", 2, server=False,
            edits={_TABLES: f"{_TABLES}\n  init_commands: [\"SET time_zone = 'UTC'\"]"}),
    _doctor("a wrong port", 3, edits={":3306": ":1"}),
    _doctor("a host that does not exist", 3, edits={"@127.0.0.1": "@db.invalid"}),
    _doctor("a table that does not exist", edits={_TABLES: '["shop.ordres"]'}),
    _doctor("a table in other letters", edits={_TABLES: '["shop.Orders"]'}),
    _doctor("a regular expression", edits={_TABLES: r"['^shop\..*$']"}),
    _doctor("a view", edits={_TABLES: '["shop.orders", "shop.recent"]'}),
    _doctor("exclusions that leave nothing", edits={_TABLES: '["shop.orders", "!shop.*"]'}),
    _doctor("a user without any right", edits={_USER: "mysql://blind@"}),
    _doctor("a user that may read tables alone", edits={_USER: "mysql://selecting@"}),
    _doctor("settings of a table that does not exist", 0, more="tables: {shop.order: {scd: 2}}\n"),
    _doctor("a column that does not exist", more="tables: {shop.orders: {exclude: [notes]}}\n"),
    _doctor("a key of a column that does not exist", more="tables: {shop.log: {key: [id]}}\n"),
    _doctor("a type that the column cannot have", 2, more="tables: {shop.orders: {types: {id: text}}}\n"),
    _doctor(
        "a source with the format STATEMENT",
        sql=("SET GLOBAL binlog_format = STATEMENT",), undo=("SET GLOBAL binlog_format = ROW",),
    ),
    _doctor(
        "a source with minimal row images",
        sql=("SET GLOBAL binlog_row_image = MINIMAL",), undo=("SET GLOBAL binlog_row_image = FULL",),
    ),
    _doctor("a source without a binlog", edits={":3306": ":{other}"}),
    _doctor("TLS turned off for a user that requires it", 3, edits={_USER: "mysql://encrypted@",
            _TABLES: f"{_TABLES}\n  tls: disabled"}),
    _doctor("a certificate that nobody vouches for", 3, edits={_TABLES: f"{_TABLES}\n  tls: verify-ca"}),
    _doctor("an authority that is not there", 2, edits={_TABLES: f"{_TABLES}\n  tls: verify-ca\n  tls_ca: ca.pem"}),
    _doctor("an authority that nothing checks", 2, edits={_TABLES: f"{_TABLES}\n  tls_ca: pipeline.yml"}),
    _doctor("a range of one id", 2, edits={_TABLES: f"{_TABLES}\n  server_ids: 6000-6000"}),
    _doctor("bronze and silver in one schema", 0, edits={"shop_silver": "shop_bronze"}),
)  # fmt: skip
