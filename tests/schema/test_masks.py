"""What the user says of columns: which masks there are, what they are in a schema, and what they go by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_cdc.errors import DefiniteError
from lakehouse_cdc.schema.column_choice import Choice, require_same_choice
from lakehouse_cdc.schema.masks import fingerprint, hashed_under, kept, parsed, salted, unmasked
from lakehouse_cdc.schema.representation import Rules, carry_on
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.schema.types import faults, require
from lakehouse_cdc.sql.redaction import without_constants

TABLE = TableSchema(
    "shop",
    "people",
    (
        Column("id", "int", nullable=False),
        Column("Email", "varchar", length=80, charset="utf8mb4"),
        Column("phone", "bigint"),
        Column("born", "date"),
        Column("photo", "blob"),
        Column("features", "vector", length=3),
        Column("credit", "decimal", precision=10, scale=2),
    ),
    ("id",),
)


@pytest.mark.parametrize(
    ("given", "mask"),
    [
        (None, "null"),
        ("null", "null"),
        ("hash", "hash"),
        ({"keep_last": 4}, "keep:0:4"),
        ({"keep_first": 1, "keep_last": 2}, "keep:1:2"),
    ],
)
def test_masks(given: Any, mask: str) -> None:
    assert parsed(given) == mask


@pytest.mark.parametrize(
    "given", ["", "Hash", "sha256", 4, True, [], {}, {"keep": 4}, {"keep_last": 0}, {"keep_last": -1},
              {"keep_last": "4"}, {"keep_last": True}, {"keep_first": 1 << 16}]
)  # fmt: skip
def test_what_is_no_mask(given: Any) -> None:
    with pytest.raises(ValueError, match="expected null, hash"):
        parsed(given)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_salt_is_known_by_its_fingerprint(salt: str, other: str) -> None:
    mask = salted("hash", salt)
    assert hashed_under(mask) == fingerprint(salt)
    assert (mask == salted("hash", other)) == (salt == other)
    assert salted("null", salt) == "null"
    assert (kept("keep:2:3"), kept(mask), kept("")) == ((2, 3), None, None)


def test_schemas_without_masks_are_what_they_were() -> None:
    assert "mask" not in TABLE.to_json()
    assert TABLE.id == "91780028315016eb"
    masked = replace(TABLE, columns=(TABLE.columns[0], replace(TABLE.columns[1], mask="null"), *TABLE.columns[2:]))
    assert masked.id != TABLE.id
    assert TableSchema.from_json(masked.to_json()) == masked


def chosen(**said: Any) -> dict[str, str]:
    """The captured columns and their masks."""
    return {c.name: c.mask for c in Choice(**said).chosen(TABLE).captured}


def test_what_is_included_and_excluded() -> None:
    assert list(chosen(include={"shop.*": ["EMAIL", "born"]})) == ["id", "Email", "born"]
    assert list(chosen(include={"shop.*": ["email", "born"]}, exclude={"*.*": ["Born"]})) == ["id", "Email"]
    assert list(chosen(include={"shop.*": ["email"], "shop.people": ["phone"]})) == ["id", "phone"]
    assert list(chosen(include={"shop.people": []})) == ["id"]
    assert len(chosen(include={"shop.others": ["x"]})) == len(TABLE.columns)
    assert "id" not in chosen(include={"shop.*": ["id"]}, exclude={"shop.*": ["id"]})  # and so refused, see types


def test_masks_of_all_patterns_and_the_last_one_of_a_column() -> None:
    masks = {"*.*": {"email": "null", "PHONE": "null"}, "shop.people": {"email": "hash:1"}, "other.*": {"born": "null"}}
    found = chosen(masks=masks)
    assert {name: mask for name, mask in found.items() if mask} == {"Email": "hash:1", "phone": "null"}


def test_what_masks_make_of_types() -> None:
    columns = {c.name: c for c in TABLE.columns}
    for mask in ("hash:1", "keep:0:4"):
        for name in ("Email", "phone", "born", "credit"):
            assert require(replace(columns[name], mask=mask), "t").silver == "string"
    for column in TABLE.columns:
        assert require(replace(column, mask="null"), "t") == require(column, "t")
    assert unmasked(replace(columns["born"], mask="hash:1", carried="null")) == replace(columns["born"], carried="text")
    assert unmasked(replace(columns["born"], mask="null", carried="null")).carried == "null"


@pytest.mark.parametrize(
    ("column", "mask", "said"),
    [
        ("id", "null", "column id is part of the primary key of shop.people and cannot be masked"),
        ("id", "hash:1", "column id is part of the primary key of shop.people and cannot be masked"),
        ("features", "hash:1", "column features of shop.people is of type vector(3), which has no characters"),
        ("photo", "keep:0:4", "column photo of shop.people is of type blob, which has no characters"),
        ("photo", "hash:1", None),
        ("features", "null", None),
    ],
)
def test_what_cannot_be_masked(column: str, mask: str, said: str | None) -> None:
    found = faults(Choice(masks={"shop.people": {column: mask}}).chosen(TABLE))
    assert [fault.what[: len(said or "")] for fault in found] == ([said] if said else [])


def test_a_mask_goes_with_its_column() -> None:
    choice = Choice(masks={"shop.people": {"email": "null", "born": "hash:1"}})
    before = choice.chosen(TABLE)
    renamed = replace(
        TABLE,
        columns=tuple(
            replace(c, name={"Email": "mail", "phone": "born", "born": "Email"}.get(c.name, c.name))
            for c in TABLE.columns
        ),
    )
    after = carry_on(choice.chosen(renamed), before, {"mail": "Email", "born": "phone", "Email": "born"}, Rules())
    assert {c.name: c.mask for c in after.columns if c.mask} == {"mail": "null", "born": "hash:1", "Email": "hash:1"}
    with pytest.raises(DefiniteError, match="is masked otherwise than before"):
        require_same_choice(after, choice.chosen(renamed))


def test_an_included_column_stays_under_another_name() -> None:
    """And one that is not included does not come by taking such a name, nor by being new."""
    choice = Choice(include={"shop.people": ["email", "phone"]})
    before = choice.chosen(TABLE)
    names = {"Email": "mail", "born": "email"}
    columns = [replace(c, name=names.get(c.name, c.name)) for c in TABLE.columns] + [Column("new", "int")]
    renamed = replace(TABLE, columns=tuple(columns))
    origin = {names.get(c.name, c.name): c.name for c in TABLE.columns}
    after = carry_on(choice.chosen(renamed, origin), before, origin, Rules())
    assert [c.name for c in after.captured] == ["id", "mail", "phone"]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("ALTER TABLE t ADD c VARCHAR(20) DEFAULT 'secret'", "ALTER TABLE t ADD c VARCHAR(20) DEFAULT '...'"),
        ("ALTER TABLE t ADD c INT DEFAULT -017, ADD d INT", "ALTER TABLE t ADD c INT DEFAULT -..., ADD d INT"),
        ("ALTER TABLE t ADD c INT DEFAULT (42)", "ALTER TABLE t ADD c INT DEFAULT (...)"),
        ("ALTER TABLE t ADD c BLOB DEFAULT x'5365'", "ALTER TABLE t ADD c BLOB DEFAULT '...'"),
        ("INSERT INTO `a'b` VALUES ('it''s', \"secret\") -- secret", "INSERT INTO `a'b` VALUES ('...', '...') "),
        ("INSERT INTO t /* secret */ VALUES (_utf8'secret')", "INSERT INTO t  VALUES (_utf8'...')"),
        ("INSERT INTO t VALUES ('a\\' , 'secret')", "INSERT INTO t VALUES (..."),
        ("INSERT INTO t VALUES ('secret", "INSERT INTO t VALUES (..."),
        ("RENAME TABLE a TO b", "RENAME TABLE a TO b"),
    ],
)
def test_statements_without_constants(sql: str, shown: str) -> None:
    assert without_constants(sql) == shown


@given(st.text("ab' \"`\\\n-#/*x(1", max_size=40))
def test_no_part_of_a_string_is_shown(text: str) -> None:
    quoted = text.replace("'", "''")
    assert "SECRET" not in without_constants(f"UPDATE t SET a = '{quoted}SECRET{quoted}', b = 'SECRET' WHERE c = 1")
