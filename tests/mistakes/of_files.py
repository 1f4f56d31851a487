"""Mistakes in `pipeline.yml` that no server need answer."""

from __future__ import annotations

from tests.mistakes.mistake import FILE, Mistake

_URL, _PASSWORD = "mysql://cdc@127.0.0.1:3306", "${env:SHOP_PASSWORD}"
_TABLES = '  tables: ["shop.*"]'
_PATH = "  path: ./lakehouse"


def _in_source(line: str) -> dict[str, str]:
    return {_TABLES: f"{_TABLES}\n  {line}"}


YAML = (
    Mistake("a tab to indent", edits={"  url:": "\turl:"}),
    Mistake("a key that is indented further than its neighbours", edits={_TABLES: f" {_TABLES}"}),
    Mistake("a key that is not indented", edits={"  silver:": "silver:"}),
    Mistake("a pattern that begins with *, not in quotes", edits={'["shop.*"]': "[*.orders]"}),
    Mistake("an exclusion that is not in quotes", edits={'["shop.*"]': "[shop.*, !shop.audit]"}),
    Mistake("a key that is there twice", more="name: shop2\n"),
    Mistake("a file that is not UTF-8", text=FILE.replace("shop_silver", "gesch\xe4ft").encode("latin-1")),
    Mistake("an empty file", text=""),
)
FILES = (
    Mistake("a misspelt section", edits={"target:": "targets:"}),
    Mistake("a misspelt key", edits={"  tables:": "  table:"}),
    Mistake("a required key that is missing", edits={"name: shop\n": ""}),
    Mistake("a name with a blank", edits={"name: shop\n": "name: my shop\n"}),
    Mistake("the password itself", edits={_PASSWORD: "hunter2-hunter2"}),
    Mistake("a variable as a shell writes it", edits={_PASSWORD: "$SHOP_PASSWORD"}),
    Mistake("the password in the url", edits={_URL: "mysql://cdc:hunter2-hunter2@127.0.0.1:3306"}),
    Mistake("a url of JDBC", edits={_URL: "jdbc:mysql://127.0.0.1:3306/shop?user=cdc"}),
    Mistake("a host and a port for the url", edits={_URL: "127.0.0.1:3306"}),
    Mistake("a url without a user", edits={_URL: "mysql://127.0.0.1:3306"}),
    Mistake("a database in the url", edits={_URL: f"{_URL}/shop"}),
    Mistake("tables as a text", edits={'["shop.*"]': "shop.*"}),
    Mistake("a table without its database", edits={'["shop.*"]': "[orders]"}),
    Mistake("exclusions alone", edits={'["shop.*"]': '["!shop.audit"]'}),
    Mistake("a regular expression without a dot of its own", edits={'["shop.*"]': '["(shop|crm)"]'}),
    Mistake("a number in quotes", edits=_in_source('chunk_bytes: "100"')),
    Mistake("a unit in full", edits=_in_source("chunk_bytes: 32 megabytes")),
    Mistake("a number below zero", edits=_in_source("chunk_rows: -1")),
    Mistake("a time without its unit, where one is needed", more="run: {every: 10}\n"),
    Mistake("a word for true", more="  metrics: 'yes'\n"),
    Mistake("true for a mode of TLS", edits=_in_source("tls: true")),
    Mistake("one id of a replica for a range", edits=_in_source("server_ids: 6000")),
    Mistake("a moment in words", edits=_in_source("start: yesterday")),
    Mistake("a moment to begin at, with a snapshot", edits=_in_source("start: earliest")),
    Mistake("a bucket for the target", edits={_PATH: "  path: s3n://lake/shop"}),
    Mistake("a folder and a catalog", edits={_PATH: f"{_PATH}\n  catalog: main"}),
    Mistake("a catalog without a folder for the checkpoints", edits={_PATH: "  catalog: main"}),
    Mistake("an scd that does not exist", more="tables: {shop.orders: {scd: 3}}\n"),
    Mistake("scd 2, and deletions that are marked", more="tables: {shop.orders: {scd: 2, deletes: soft}}\n"),
    Mistake("a column to exclude as a text", more="tables: {shop.orders: {exclude: note}}\n"),
    Mistake("a hash for a mask, without a salt", more="tables: {shop.customers: {masks: {email: hash}}}\n"),
    Mistake("a mask that does not exist", more="tables: {shop.customers: {masks: {email: sha256}}}\n"),
    Mistake("a sink of Kafka without its brokers", more="sinks: {events: {kafka: {}}}\n"),
)  # fmt: skip
