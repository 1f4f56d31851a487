"""What each server is started with: its settings, its accounts, and how its data directory is made.

There is one list of settings, and one table of the servers that a setting is not for: so a server that refuses one of
its settings is a fault, and never passed over.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from lakehouse_cdc.testing.certificate import CERTIFICATE, KEY
from lakehouse_cdc.testing.versions import MARIADB, Version

ROOT, READER, READER_PASSWORD = "root", "cdc", "cdc-secret"

_STORAGE = {
    "mysqlx": "OFF",
    "character_set_server": "utf8mb4",
    "innodb_use_native_aio": "0",
    "innodb_buffer_pool_size": "64M",
    "innodb_redo_log_capacity": "64M",
    "innodb_log_file_size": "32M",
    "innodb_flush_log_at_trx_commit": "2",
    "innodb_flush_method": "nosync" if sys.platform.startswith("linux") else "fsync",
}
_SERVICE = {
    "bind_address": "127.0.0.1",
    "skip_name_resolve": "ON",
    "server_id": "1",
    "log_bin": "mysql-bin",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "sync_binlog": "0",
    "gtid_mode": "ON",
    "enforce_gtid_consistency": "ON",
    "secure_file_priv": "",
    "ssl_cert": CERTIFICATE,
    "ssl_key": KEY,
}
_NOT_FOR: Mapping[str, tuple[Version, ...]] = {
    "mysqlx": ("mysql-5.7", *MARIADB),
    "innodb_redo_log_capacity": ("mysql-5.7", *MARIADB),
    "innodb_log_file_size": ("mysql-8.0", "mysql-9"),  # that capacity is its successor
    "binlog_row_metadata": ("mysql-5.7",),
    # MySQL 8 and 9 have their own; of TLS, 5.7.22 knows 1.1 at most, which no client of today speaks
    "ssl_cert": ("mysql-5.7", "mysql-8.0", "mysql-9"),
    "ssl_key": ("mysql-5.7", "mysql-8.0", "mysql-9"),
    "gtid_mode": MARIADB,  # every transaction has a GTID there
    "enforce_gtid_consistency": MARIADB,
}

# the scripts that make MariaDB's system tables, in their order; a name begins with mysql_, mariadb_ or maria_
_SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data", "add_gis_sp_bootstrap", "sys_schema")


def storage(version: Version) -> dict[str, str]:
    """The settings that a data directory is made with, and used with ever after."""
    return {name: value for name, value in _STORAGE.items() if version not in _NOT_FOR.get(name, ())}


def service(version: Version) -> dict[str, str]:
    """The settings of a server that is a source of changes."""
    return {name: value for name, value in _SERVICE.items() if version not in _NOT_FOR.get(name, ())}


def accounts(version: Version) -> str:
    """SQL, a statement a line: root without a password, and a reader with what a reader of changes needs.

    That is SELECT for the rows, SHOW VIEW and TRIGGER to see what statements logged as text lead to, and the rest for
    the binlog, its position, and how far a replica is behind.
    """
    position = "BINLOG MONITOR, SLAVE MONITOR" if version in MARIADB else "REPLICATION CLIENT"
    return f"""\
CREATE USER 'root'@'127.0.0.1' IDENTIFIED BY '';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE USER '{READER}'@'127.0.0.1' IDENTIFIED BY '{READER_PASSWORD}';
GRANT SELECT, SHOW VIEW, TRIGGER, REPLICATION SLAVE, {position} ON *.* TO '{READER}'@'127.0.0.1';
"""


def system_tables(share: Path) -> str:
    """SQL for MariaDB's `--bootstrap`, for accounts to follow: one root, by the socket, is what the scripts make."""
    scripts = [next(share.glob(f"*_{name}.sql")).read_text(encoding="utf-8") for name in _SYSTEM_TABLES]
    return (
        "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = 'root';\n"
        + "\n".join(scripts)
        + "\nFLUSH PRIVILEGES;\n"
    )
