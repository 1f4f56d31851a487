"""Each command that a message of the program names, as it stands: it is one of ours, is whole, and a test runs it.

The messages are the strings of the package, without docstrings; what is computed in them is `{}`.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import pytest
from typer.core import TyperGroup
from typer.main import get_group

from lakehouse_cdc.cli.as_called import COMMANDS
from lakehouse_cdc.cli.main import app
from tests.support.documents import ROOT

# each command, and the test that runs it: those of hints are taken out of the hints there
PRINTED = {
    "config --help": "tests/cli/test_printed_commands.py",
    "config --schema": "tests/pipeline/test_config_schema.py",
    "bundle init --help": "tests/cli/test_printed_commands.py",
    "dead-letters list -c pipeline.yml": "tests/topics/test_commands.py",
    "dead-letters retry -c pipeline.yml": "tests/topics/test_commands.py",
    "demo --keep": "tests/cli/test_demo.py",
    "doctor -c pipeline.yml": "tests/test_readme.py",
    "init --help": "tests/cli/test_printed_commands.py",
    "init --url mysql://USER@HOST --tables 'DB.*' --password-env VAR": "tests/cli/test_init.py",
    "maintain --vacuum -c pipeline.yml": "tests/pipeline/test_maintain.py",
    "redact -c pipeline.yml": "tests/pipeline/test_redact.py",
    "reset --keep-tables -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "reset -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "run --once -c pipeline.yml": "tests/test_readme.py",
    "signal --help": "tests/cli/test_printed_commands.py",
    "signal -c pipeline.yml pass FILE:POS": "tests/source/test_passed_statements.py",
    "signal -c pipeline.yml pass {}": "tests/source/test_passed_statements.py",
    "signal -c pipeline.yml pause": "tests/remedies/test_configuration.py",
    "signal -c pipeline.yml resume": "tests/remedies/test_targets.py",
    "signal -c pipeline.yml snapshot TABLE": "tests/remedies/test_silver.py",
    "signal -c pipeline.yml snapshot {}": "tests/remedies/test_silver.py",
    "verify --repair -c pipeline.yml": "tests/docs/test_tutorial.py",
    "{} -c {}": "tests/cli/test_init.py",
}
# the version and the title of the report; a heading of the reference; and who drafted a file
NO_COMMANDS = {"{}", "COMMAND", "init"}
# a word of a command: an option, a file, a place for one of the user's, or a word that the commands know
_KNOWN = "|".join([*COMMANDS, "list", "retry", "drop", "snapshot", "add", "pass", "pause", "resume", "stop"])
_WORD = rf"--?[a-z][a-z-]*|pipeline\.yml|{{}}|'[^']*'|mysql://\S+|[A-Z]+(?::[A-Z]+)?\b|(?:{_KNOWN})\b"
_COMMAND = re.compile(rf"\blakehouse-cdc((?: (?:{_WORD}))+)")


def messages(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, but for docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(node.body[0].value) for node in ast.walk(tree)
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)}  # fmt: skip
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | parts:
            yield node.value


def printed() -> set[str]:
    texts = (text for file in (ROOT / "lakehouse_cdc").rglob("*.py")
             for text in messages(ast.parse(file.read_text(encoding="utf-8"))))  # fmt: skip
    return {found.strip() for text in texts for found in _COMMAND.findall(text)}


def test_every_command_of_a_message_is_run_by_a_test() -> None:
    assert printed() - NO_COMMANDS == set(PRINTED)
    assert [place for place in PRINTED.values() if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("text", [text for text in PRINTED if not text.startswith("{}")])
def test_it_is_whole(text: str) -> None:
    """The command line takes it, so what it needs is in it."""
    group: TyperGroup = get_group(app)
    command, *words = shlex.split(text)
    while isinstance(child := group.commands[command], TyperGroup):
        group, command, *words = child, *words
    if words == ["--help"]:
        with pytest.raises(SystemExit) as ended:
            child.main(words, prog_name=command)
        assert ended.value.code == 0
        return
    context = child.make_context(command, [*words])
    assert ("config" in context.params) is ("-c" in words)
