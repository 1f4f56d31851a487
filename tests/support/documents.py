"""The pages of the documentation, their code blocks, and where each of their commands is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# each command of a page: the test that runs it, or where else that is done or checked
COMMANDS = {
    "mkdir first-hour": "tests/docs/test_tutorial.py",
    "cd first-hour": "tests/docs/test_tutorial.py",
    "uv run python": "tests/docs/test_tutorial.py",
    "uv run lakehouse-cdc init --url mysql://root@127.0.0.1:13306 --tables 'shop.*'": "tests/docs/test_tutorial.py",
    "uv run lakehouse-cdc verify -c pipeline.yml --repair": "tests/docs/test_tutorial.py",
    "uv run lakehouse-cdc doctor -c pipeline.yml": "tests/test_readme.py",
    "uv run lakehouse-cdc run -c pipeline.yml --once": "tests/test_readme.py",
    "uv run lakehouse-cdc status -c pipeline.yml": "tests/test_readme.py",
    "uv run lakehouse-cdc verify -c pipeline.yml": "tests/test_readme.py",
    "uv run lakehouse-cdc run -c pipeline.yml --plan": "tests/test_readme.py",
    "uv run lakehouse-cdc as-of -c pipeline.yml": "tests/test_readme.py",
    "uv run lakehouse-cdc maintain -c pipeline.yml": "tests/test_readme.py",
    "uv run lakehouse-cdc signal -c pipeline.yml snapshot shop.orders": "tests/test_readme.py",
    "uv run lakehouse-cdc report -c pipeline.yml -o report.html": "tests/pipeline/test_telemetry.py",
    "uv run lakehouse-cdc run -c pipeline.yml --log json": "tests/pipeline/test_telemetry.py",
    "uv run lakehouse-cdc monitoring monitoring": "tests/telemetry/test_files.py",
    "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318": "tests/telemetry/test_outputs.py",
    "uv run lakehouse-cdc run -c pipeline.yml --set target.metrics_otel=true": "tests/telemetry/test_outputs.py",
    "uv run lakehouse-cdc redact -c pipeline.yml": "tests/pipeline/test_redact.py",
    "uv run lakehouse-cdc maintain --vacuum -c pipeline.yml": "tests/pipeline/test_maintain.py",
    "uv run lakehouse-cdc demo": "tests/cli/test_demo.py",
    "uv run lakehouse-cdc reset -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "uv run lakehouse-cdc reset --keep-tables -c pipeline.yml": "tests/pipeline/test_belonging.py",
    "uv run lakehouse-cdc dead-letters list -c pipeline.yml": "tests/topics/test_commands.py",
    "uv run lakehouse-cdc dead-letters retry -c pipeline.yml --reason unknown_table": "tests/topics/test_commands.py",
    "uv run lakehouse-cdc dead-letters drop -c pipeline.yml --reason not_json --yes": "tests/topics/test_commands.py",
    "uv run python -m lakehouse_cdc.spec.interleaving": "tests/docs/test_commands.py",
    "uv run python -m lakehouse_cdc.spec.interleaving --without floor": "tests/docs/test_commands.py",
    "uv run python -m lakehouse_cdc.spec.failover --runs 5000": "tests/docs/test_commands.py",
    "uv run python -m tests.mistakes '>' docs/reference/mistakes.md": "tests/mistakes/test_mistakes.py",
    "uv run python -m tests.faults": "tests/faults/test_under_writes.py",
    "uv run python -m tests.newcomer --python 3.13": "tests/newcomer/test_newcomer.py",
    "uv build --wheel": "tests/newcomer/test_newcomer.py",
    "uv venv": "tests/newcomer/test_newcomer.py",
    "uv pip install './dist/lakehouse_cdc-0.1.0-py3-none-any.whl[local]'": "tests/newcomer/test_newcomer.py",
    "uv pip install 'lakehouse-cdc[local] @ git+file:///path/to/a/clone'": "tests/newcomer/test_newcomer.py",
    "uv run python -m tests.mutations --list": "tests/docs/test_commands.py",
    "uv run python -m tests.mutations": "tests/mutations",
    "uv run python -m tests.mutations seq-order": "tests/mutations/test_guards.py",
    "uv run coverage run -m pytest -n 0 -m unit": "pyproject.toml",
    "uv run coverage report": "pyproject.toml",
    "uv run python -i notebooks/quickstart.py": "tests/notebooks/test_notebooks.py",
    # these need a workspace: the bundle, the target and the job that they name are checked, they are not run
    "cd bundles": "tests/bundles/test_bundle.py",
    "databricks bundle validate --strict -t dev": "tests/bundles/test_bundle.py",
    "databricks bundle deploy -t dev": "tests/bundles/test_bundle.py",
    "databricks secrets put-secret shop_dev mysql_password": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev doctor": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev ingest": "tests/bundles/test_bundle.py",
    "databricks bundle run -t dev declarative": "tests/bundles/test_bundle.py",
    "uv run lakehouse-cdc init --url mysql://cdc@127.0.0.1:3306 --tables 'shop.*'"
    " --password-env SHOP_PASSWORD": "tests/cli/test_init.py",
    "uv run lakehouse-cdc bundle init --url mysql://cdc@db:3306 --tables 'shop.*' --catalog main"
    " --password-env SHOP_PASSWORD shop-bundle": "tests/bundles/test_init.py",
    "uv run lakehouse-cdc bundle status shop-bundle": "tests/bundles/test_status.py",
    # hours on small machines: each is run with --quick, of merge all but its command line
    "uv run python -m bench.speed": "tests/bench/test_speed.py",
    "uv run python -m bench.latency": "tests/bench/test_latency.py",
    "uv run python -m bench.cost": "tests/bench/test_cost.py",
    "uv run python -m bench.merge": "tests/bench/test_merge.py",
    "uv run python -m bench.many_tables": "tests/bench/test_many_tables.py",
    "uv run python -m lakehouse_cdc.images.build": "tests/images/ahead/test_library.py",
    "LAKEHOUSE_CDC_KERNELS=numba uv run pytest tests/images": "tests/images/ahead/test_library.py",
    "uv run python -m bench.cold": "tests/bench/test_cold.py",
    "uv run python -m bench.commands": "tests/bench/test_commands.py",
    "uv run python -m bench.report": "tests/bench/test_charts.py",
    "uv run pytest -m unit": ".github/workflows/ci.yml",
    "uv run pytest -m unit --hypothesis-profile thorough": ".github/workflows/ci.yml",
    "uv run pytest tests/schema": "tests/schema",
    "uv run pytest": ".ci/run",
    "uv run pytest -n 0 -m long tests/test_readme.py": ".ci/run",
    "uv run pytest -n 0 -m long --production-spark": "pyproject.toml",
    "uv run ruff check": ".ci/run",
    "uv run ruff format --check": ".ci/run",
    "uv run mypy": ".ci/run",
    "uv run lint-imports --no-logo": ".ci/run",
}


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(language: str, page: str) -> list[str]:
    """The fenced blocks of one language of a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", text(page), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """The command lines of a page's sh blocks, without comments."""
    found = blocks("sh", str(page.relative_to(ROOT)))
    lines = [shlex.split(line, comments=True) for block in found for line in block.splitlines()]
    return [shlex.join(line) for line in lines if line]


def prose(page: Path) -> str:
    """A page without its code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
