"""The page of errors, from the registry and from the tests of their remedies.

`python -m tests.remedies > docs/reference/errors.md` in a checkout makes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakehouse_cdc.errors import codes
from lakehouse_cdc.errors.tree import REGISTRY, CdcError, Code

_AREAS = {
    1: "Configuration and command line",
    2: "Server, connection and rights",
    3: "Binlog, positions and checkpoint",
    4: "Source tables, types, DDL and values",
    5: "Bronze and Delta tables",
    6: "Silver, declarative pipelines and verification",
    7: "Runtime: Spark, Java, downloads, workspace",
    8: "Servers for tests and the demo",
}
_HEAD = """# Errors

Each error has a stable code. It is the first word of the error's text, in the output of the command line
(`error: CDC-3001 position_purged: ...`), in the log, and in the `code` of `--json`:

```json
{json}
```

The *kind* says how to react. `config`: the command or the configuration is wrong (exit code 2). `definite`: the user,
the data or the source must change first (exit code 3). `transient`: it may pass by itself, run again (exit code 3). The
*scope* says what the error is about: one `row` or value, one `table`, or the `pipeline`. An error marked with * sets
its table aside (quarantine) when it occurs in silver, and the other tables continue.

The remedy is the hint of the error, unless the place where it occurs has a more exact one. The tests in the last column
make the situation, carry the hint out, and see the pipeline continue.
"""


def markdown(tests: Mapping[str, Sequence[str]]) -> str:
    """The whole page. `tests`: by the name of a code in capitals, those that follow its remedy out of the error."""
    sample = codes.POSITION_PURGED.error(
        "the binlog cannot be continued: binlog.000042 is purged", where="binlog.000042:157"
    )
    shown = ",\n ".join(f'"{name}": "{value}"' for name, value in sample.as_json().items())
    lines = [_HEAD.replace("{json}", f"{{{shown}}}")]
    for area, title in _AREAS.items():
        lines += [
            f"## {area}xxx: {title}",
            "",
            "| code | name | kind | scope | meaning | remedy | seen to help in |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            _line(code, tests.get(code.name.upper(), ()))
            for number, code in sorted(REGISTRY.items())
            if number // 1000 == area
        ]
        lines.append("")
    return "\n".join(lines)


def _line(code: Code[CdcError], tests: Sequence[str]) -> str:
    kind = code.kind_name + ("*" if code.sets_aside else "")
    seen = "<br>".join(f"`{test}`" for test in tests)
    cells = [f"`{code.label}`", f"`{code.name}`", kind, code.scope.value, _cell(code.meaning), _cell(code.remedy), seen]
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("{", "\\{").replace("}", "\\}")
