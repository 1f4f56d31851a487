"""What the prose names exists: docstrings, comments and pages refer to modules, functions and files that are there.

Three kinds of references are looked for: paths of files (`tests/docs/test_links.py`), dotted names in backticks whose
first part is one of our packages (`model.seq`, or from the package of the module itself), and what follows "see".
"""

from __future__ import annotations

import ast
import io
import pkgutil
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import PAGES, ROOT

FOLDERS = ("lakehouse_cdc", "tests", "bench", "notebooks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PACKAGES = {path.parent.name for path in SOURCES if path.name == "__init__.py"}
MODULES = {path.stem for path in SOURCES} | PACKAGES
# dotted names of other things: keys of the configuration, properties of Delta's, columns, variables
OTHERS = {
    "batch.identity",
    "batch.versions.last",
    "catalog.schema.name",
    "lakehouse_cdc.engine",
    "lakehouse_cdc.metadata_prefix",
    "lakehouse_cdc.pipeline",
    "lakehouse_cdc.rebuilt",
    "rows.sql",
    "rows.table",
    "rows.txn",
    "run.every",
    "schema.name",
    "schema.sql",
    "source.mask_salt",
    "source.tables",
    "source.tables.0",
    "source.tls",
    "source.zero_dates",
    "spark.archives",
    "spark.jars",
    "spark.master",
    "spark.python.daemon.module",
    "spark.sql.ansi.enabled",
}

_COMMENT = re.compile(r"#.*")  # also in a string, whose names are to exist as well
_PATH = re.compile(
    r"(?<![\w/.:*{<-])((?:lakehouse_cdc|tests|docs|bench|bundles|notebooks)/[\w/-]+\.(?:py|md|json|yml))\b"
)
_DOTTED = re.compile(r"`((?:\w+\.)+\w+)(?:\(\))?`")
_SEE = re.compile(r"\b[Ss]ee\s+(?:#\s+)?`(\w+)`(?:(?:,| and)\s+(?:#\s+)?`(\w+)`)?")


def names_in(source: str) -> set[str]:
    """All names that the code of a module has, which a "see" in its prose may mean."""
    return {
        token.string for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type == tokenize.NAME
    }


def prose_of(path: Path) -> str:
    """A page, or the docstrings and comments of a module."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return source
    comments = _COMMENT.findall(source)
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return "\n".join([*strings, *comments])


def exists(name: str, path: Path) -> bool:
    """Whether a dotted name means something in the module at `path`, or in one of the packages around it."""
    places = path.relative_to(ROOT).with_suffix("").parts
    around = [".".join(places[:depth]) for depth in range(len(places), 0, -1)]
    return any(_resolves(full) for full in [name, f"lakehouse_cdc.{name}", *(f"{place}.{name}" for place in around)])


def _resolves(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return True


def missing(path: Path) -> Iterator[str]:
    text = prose_of(path)
    yield from (name for name in _PATH.findall(text) if not (ROOT / name).exists())
    for name in {*_DOTTED.findall(text)} - OTHERS:
        if path.suffix == ".md":
            ours = name.startswith("lakehouse_cdc.")
        else:
            ours = name.partition(".")[0] in PACKAGES and name.rpartition(".")[2] not in {"py", "md", "json", "yml"}
        if ours and not exists(name, path):
            yield name
    if path.suffix == ".py":
        named = {name for names in _SEE.findall(text) for name in names if name} - MODULES
        yield from named and named - names_in(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", [*FOLDERS, "docs"])
def test_what_the_prose_names_exists(folder: str) -> None:
    pages = PAGES if folder == "docs" else [path for path in SOURCES if path.is_relative_to(ROOT / folder)]
    wrong = {str(path.relative_to(ROOT)): sorted(names) for path in pages if (names := [*missing(path)])}
    assert wrong == {}


def test_a_name_that_is_not_there_is_noticed(tmp_path: Path) -> None:
    page = ROOT / "tests" / "docs" / "test_references.py"
    assert exists("model.seq.unpack", page)
    assert exists("test_links", page)
    assert not exists("model.asof", page)
