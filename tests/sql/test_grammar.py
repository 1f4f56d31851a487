"""The grammar's data: what is made from it is read by it, and the page of its differences is up to date."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lakehouse_cdc.sql.grammar.differences import page
from lakehouse_cdc.sql.grammar.notation import (
    SERVERS,
    Choice,
    Expression,
    Only,
    Reference,
    Repeated,
    Sequence,
    grammar,
    read,
    shown,
)
from lakehouse_cdc.sql.grammar.parser import TERMINALS, parse
from lakehouse_cdc.sql.lexer import Dialect, Reader, Tokens
from lakehouse_cdc.sql.statements import StatementKind, classify
from tests.support.grammar_statements import Statements

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "grammar.md"


def references(part: Expression) -> set[str]:
    if isinstance(part, Reference):
        return {part.name}
    if isinstance(part, Sequence | Choice):
        return set().union(*map(references, part.parts))
    return references(part.part) if isinstance(part, Only | Repeated) else set()


def test_every_name_is_a_production_or_a_terminal_and_is_used() -> None:
    used = set().union(*map(references, grammar().values()))
    assert used == {*grammar(), *TERMINALS}
    assert not grammar().keys() & TERMINALS.keys()


@pytest.mark.parametrize("text", ["a", "a = [ B", "a = B )", "a = b\na = c", "a = ?"])
def test_what_is_not_in_the_notation_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        read(text)


def test_an_expression_is_shown_as_it_is_written() -> None:
    text = "A [ B | c ] ( D | E ) f % ',' ( g h )* '('"
    assert shown(read(f"a = {text}")["a"]) == text


@pytest.mark.parametrize("server", SERVERS)
def test_every_statement_that_is_made_is_read_to_its_end(server: str) -> None:
    """With all alternatives of the server's grammar."""
    made, dialect = Statements(server, seed=3), Dialect(0, server in ("10.11", "11.8"))
    missing = made.points()
    for _ in range(3_000):
        sql = made.statement()
        tree = parse(Reader(Tokens(sql, dialect), "d", lower_case=False), "statement", frozenset([server]))
        assert tree is not None, sql
        if tree.parts[0].name in ("alter_table", "create_table", "create_index", "drop_index"):
            assert tree.parts[0].find("body", "rest") is None, sql
        assert classify(sql, "d", dialect=dialect).kind is not StatementKind.UNKNOWN, sql
        missing -= made.made
        if not missing:
            break
    assert missing == set()


def test_a_large_table_is_read_in_a_short_time() -> None:
    columns = ", ".join(f"c{i} VARCHAR(20) NOT NULL DEFAULT 'x' COMMENT 'y'" for i in range(1000))
    begin = time.perf_counter()
    assert classify(f"CREATE TABLE t ({columns})", "d").creates
    assert time.perf_counter() - begin < 10


def test_the_page_of_the_documentation_is_made_from_the_grammar() -> None:
    assert PAGE.read_text("utf-8") == page(), "uv run python -m lakehouse_cdc.sql.grammar > docs/reference/grammar.md"
