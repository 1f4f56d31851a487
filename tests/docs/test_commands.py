"""Each command in the documentation is run here, or by what is named here."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# command: its exit code
RUN = {
    "uv run python -m lakehouse_cdc.spec.interleaving": 0,
    "uv run python -m lakehouse_cdc.spec.interleaving --without floor": 1,  # a breach
    "uv run python -m tests.mutations --list": 0,
}
# commands that are not run here: where they are
ELSEWHERE = {
    "uv run lakehouse-cdc demo": "tests/cli/test_demo.py",
    "uv run lakehouse-cdc reset -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "uv run lakehouse-cdc reset --keep-tables -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "uv run python -m tests.mutations": "tests/mutations",
    "uv run python -m tests.mutations seq-order": "tests/mutations/test_guards.py",
    "uv run coverage run -m pytest -n 0 -m unit": "pyproject.toml",
    "uv run coverage report": "pyproject.toml",
    "uv run pytest -m unit": ".github/workflows/ci.yml",
    "uv run pytest tests/schema": "tests/schema",
    "uv run pytest": ".ci/run",
    "uv run pytest -n 0 -m long --production-spark": "pyproject.toml",
    "uv run ruff check": ".ci/run",
    "uv run ruff format --check": ".ci/run",
    "uv run mypy": ".ci/run",
    "uv run lint-imports --no-logo": ".ci/run",
}


def commands(page: Path) -> list[str]:
    """The command lines of a page's sh blocks, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [shlex.join(line) for line in lines if line]


def test_every_command_is_known_here() -> None:
    written = {command for page in PAGES for command in commands(page)}
    assert written == set(RUN) | set(ELSEWHERE)
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())


def test_ci_runs_the_commands_that_are_said_to_be_run_there() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [command for command, place in ELSEWHERE.items() if place == ".ci/run" and command not in script] == []


@pytest.mark.parametrize("command", RUN)
def test_the_command_ends_as_the_page_says(command: str) -> None:
    done = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == RUN[command], done.stdout + done.stderr
