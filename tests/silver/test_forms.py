"""The registry of forms: every form is known by what its tables say, and only `silver.forms` knows one from another."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

import lakehouse_cdc
from lakehouse_cdc.errors import TableError
from lakehouse_cdc.model.own_columns import OwnColumns
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.schema.table import Column, TableSchema
from lakehouse_cdc.silver.definition import form as registry
from lakehouse_cdc.silver.definition.form import DELETES, SCD, Form, form_named, form_of, form_of_columns, forms
from lakehouse_cdc.silver.forms import APPEND, CURRENT, HISTORY, SOFT_DELETES
from lakehouse_cdc.silver.forms.soft_deletes import SoftDeletes

PACKAGE = Path(lakehouse_cdc.__file__).parent
KEYED = TableSchema("shop", "a", (Column("id", "int"),), ("id",))
KEYLESS = TableSchema("shop", "a", (Column("id", "int"),), ())


class Archived(SoftDeletes):
    name = "archived"
    properties: ClassVar[Mapping[str, str]] = {SCD: "1", DELETES: "soft", "lakehouse_cdc.archived": "true"}


@pytest.fixture
def archived() -> Iterator[Form]:
    form = Archived()
    registry.register(form)
    yield form
    del registry._REGISTERED[form.name]


@pytest.mark.parametrize("form", forms(), ids=repr)
def test_a_form_is_known_by_what_its_tables_say(form: Form) -> None:
    assert form_named(form.name) is form
    assert form_of({**form.properties, "delta.columnMapping.mode": "name"}) is form
    for own in (OwnColumns(), OwnColumns("cdc_")):
        names = [name for name, _ in form.columns(own)]
        of_columns = form_of_columns(["id", *names, own.seq, own.commit_ts], own)
        assert (of_columns.columns(own), of_columns.is_current(own)) == (form.columns(own), form.is_current(own))
        assert form.null_in_first_load(own) <= {*names}


@pytest.mark.parametrize(
    ("properties", "form"),
    [
        ({}, CURRENT),
        ({SCD: "1"}, CURRENT),
        ({SCD: "2"}, HISTORY),
        ({SCD: "2", DELETES: "soft"}, HISTORY),
        ({DELETES: "soft"}, SOFT_DELETES),
        ({DELETES: "none"}, APPEND),
        ({DELETES: "hard"}, CURRENT),
    ],
)
def test_tables_of_earlier_releases_are_read_by_their_form(properties: dict[str, str], form: Form) -> None:
    assert form_of(properties) is form


@pytest.mark.parametrize("form", forms(), ids=repr)
def test_a_form_fits_tables_with_a_key_or_those_without(form: Form) -> None:
    fit, odd = (KEYED, KEYLESS) if form.needs_key else (KEYLESS, KEYED)
    form.require_fit(fit)
    with pytest.raises(TableError):
        form.require_fit(odd)


def test_a_new_form_is_registered_and_configured_without_another_change(archived: Form) -> None:
    config = PipelineConfig.parse(
        {
            "name": "p",
            "source": {"url": "mysql://u@h:1", "tables": ["shop.*"]},
            "target": {"path": "/lake", "bronze": "b", "silver": "s"},
            "tables": {"shop.a": {"form": "archived"}},
        }
    )
    assert config.policy("shop.a").form is archived
    assert form_of(archived.properties) is archived
    assert form_of(SOFT_DELETES.properties) is SOFT_DELETES


def test_two_forms_that_cannot_be_told_apart_are_refused() -> None:
    for odd in (type("Same", (SoftDeletes,), {"name": "same"}), type("Again", (Archived,), {"name": "current"})):
        with pytest.raises(ValueError, match="have equal names or properties"):
            registry.register(odd())
    assert len(forms()) == len({form.name for form in forms()}) == 7


def test_forms_are_compared_only_where_they_are_declared() -> None:
    declaring = {PACKAGE / "silver" / "definition" / "form.py", *(PACKAGE / "silver" / "forms").iterdir()}
    modules = [path for path in PACKAGE.rglob("*.py") if path not in declaring and "silver" in path.read_text()]
    odd = [
        f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if tells_forms_apart(node)
    ]
    assert odd == []


@pytest.mark.parametrize(
    ("code", "odd"),
    [
        ("form is HISTORY", True),
        ("policy.form == x", True),
        ("form.name == 'history'", True),
        ("held.form.name in names", True),
        ("isinstance(held.form, x)", True),
        ("held.form is not wanted.form", False),
        ("form.has_versions", False),
    ],
)
def test_what_tells_forms_apart(code: str, odd: bool) -> None:
    assert any(map(tells_forms_apart, ast.walk(ast.parse(code)))) is odd


def tells_forms_apart(node: ast.AST) -> bool:
    """Whether it is a comparison, an isinstance or a match of a form; two tables may be compared by their forms."""
    constants = {form.name.upper() for form in forms()}
    if isinstance(node, ast.Compare):
        sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
        if all(side.endswith(".form") for side in sides):
            return False
        return any(side in constants or side.endswith((".form", "form.name", "form.title")) for side in sides)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
        return ast.unparse(node.args[0]).split(".")[-1] == "form"
    return isinstance(node, ast.Match) and ast.unparse(node.subject).split(".")[-1] == "form"


@pytest.mark.process
@pytest.mark.parametrize("module", ["definition.form", "tables.properties", "evolution.plan", "forms.history"])
def test_forms_are_registered_whichever_module_comes_first(module: str) -> None:
    code = (
        f"import lakehouse_cdc.silver.{module}\nfrom lakehouse_cdc.silver.definition.form import forms; print(*forms())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    copies = ["multiset", "multiset_history", "multiset_soft_deletes"]
    assert found.stdout.split() == ["append", "current", "history", *copies, "soft_deletes"]
