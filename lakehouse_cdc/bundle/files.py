"""The files of a user's bundle, as text; nothing here touches the disk but `write`, which writes all of them or none.

The jobs are not a copy: `resources/*.yml` are the ones of the project's own bundle, which its tests validate, with the
wheel that is built there replaced by the user's package, and the place of the pipeline's file. A path of the project's
that is left over is an error, so the two cannot drift apart unnoticed. What comes from the source or the command line
is in the files as JSON strings, which YAML reads as they are, or in comments without a character that could end
one. A password is there only as a reference: `Secret` refuses anything else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import yaml

from lakehouse_cdc.bundle.survey import Survey
from lakehouse_cdc.errors import ConfigError, codes
from lakehouse_cdc.model.table_layout import Layout
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.pipeline.config.model import PipelineConfig
from lakehouse_cdc.schema.table import TableSchema

_HERE = Path(__file__).parent
RESOURCES = ("ingest.yml", "check.yml", "storage.yml")
_WHEEL = "../../dist/*.whl"  # what the project's own bundle installs,
_CLUSTER_LIBRARY = f"whl: {_WHEEL}"
_FILE = "${workspace.file_path}/bundles/${var.config}"  # and where its pipeline's file lies
_VARIABLE = """\
  package:
    description: What every job installs{what}.
    default: {default}
"""


class _Template(Template):
    """`@{name}`, since `${name}` is the bundle's own."""

    delimiter = "@"


@dataclass(frozen=True)
class Package:
    """What the jobs install: a requirement of pip's, a wheel in the workspace or a volume, or a wheel of this machine.

    `wheel` is the last of these, which is copied into the bundle and deployed with it.
    """

    named: str
    wheel: Path | None = None

    @classmethod
    def of(cls, given: str, version: str) -> Package:
        """From what the user gave: nothing, a path of Databricks' (/Volumes, /Workspace), or one of this machine."""
        if not given:
            return cls(f"lakehouse-cdc=={version}")
        if given.startswith(("/Volumes/", "/Workspace/")) and given.endswith(".whl"):
            return cls(given)
        wheel = Path(given)
        if wheel.suffix != ".whl" or not wheel.is_file():
            hint = "build one with `uv build --wheel`, or name one in /Volumes/ or /Workspace/"
            raise codes.BUNDLE_SETTING_INVALID.error(f"{given} is no wheel", where="--wheel", hint=hint)
        return cls(f"../wheels/{wheel.name}", wheel)

    @property
    def reference(self) -> str:
        """As the resources name it: by a variable, but for a path that is relative to their own file."""
        return self.named if self.wheel is not None else "${var.package}"

    @property
    def as_library(self) -> str:
        """The library of a cluster's task."""
        return f"whl: {self.reference}" if self.named.endswith(".whl") else f'pypi: {{package: "{self.reference}"}}'

    @property
    def variable(self) -> str:
        """Its declaration in databricks.yml."""
        if self.wheel is not None:
            return ""
        what = ", a wheel" if self.named.endswith(".whl") else ", as pip names it"
        return _VARIABLE.format(what=what, default=_text(self.named))


@dataclass(frozen=True)
class Plan:
    """What is to be written: the source as the pipeline's file will name it, and the names of all that it makes."""

    name: str
    url: str
    password: str
    tls: str
    patterns: tuple[str, ...]
    catalog: str
    schema: str
    bronze: str
    silver: str
    package: Package
    node_type: str
    survey: Survey

    @property
    def bundle(self) -> str:
        """The bundle's name, which those of its jobs begin with."""
        return f"lakehouse-cdc-{self.name}"

    def files(self) -> dict[str, str]:
        """The text of every file by its path in the bundle. Raises ConfigError for what no pipeline's file may hold."""
        values = {
            "name": self.name,
            "bundle": _text(self.bundle),
            "catalog": _text(self.catalog),
            "package": self.package.variable,
            "node_type": _text(self.node_type),
            "schema": _text(self.schema),
            "schema_dev": _text(f"{self.schema}_dev"),
        }
        files = {
            "databricks.yml": _Template((_HERE / "databricks.yml").read_text(encoding="utf-8")).substitute(values),
            "pipeline.yml": self._pipeline("prod", ""),
            "pipeline.dev.yml": self._pipeline("dev", "_dev"),
        }
        for name in RESOURCES:
            files[f"resources/{name}"] = self._resource((_resources() / name).read_text(encoding="utf-8"))
        return files

    def config(self, password: str | None = None, suffix: str = "") -> PipelineConfig:
        """The configuration of a target; `password` in place of the reference that is written."""
        return self._checked(self._settings(suffix, self.password if password is None else password))

    def _settings(self, suffix: str, password: str) -> dict[str, object]:
        names = [*self.patterns, *(f"!{pattern_of(name)}" for name in self.survey.left_out)]
        target = {
            "catalog": self.catalog,
            "bronze": f"{self.bronze}{suffix}",
            "silver": f"{self.silver}{suffix}",
            "checkpoints": f"/Volumes/{self.catalog}/{self.schema}{suffix}/checkpoints",
            "metrics": True,
        }
        if self._share_names():
            target["silver_name"] = "{database}__{table}"
        return {
            "name": self.name,
            "source": {"url": self.url, "password": password, "tables": names, "tls": self.tls},
            "target": target,
            "tables": {pattern_of(name): {"exclude": [*columns]} for name, columns in self.survey.excluded.items()},
        }

    def _share_names(self) -> bool:
        """Whether two source tables would have the same silver table, or one the name of the ledger."""
        layout, names = Layout(self.name, self.bronze, self.silver, catalog=self.catalog), self.survey.tables
        return bool(layout.sharing_names(names)) or any(layout.takes_ledger(name) for name in names)

    def _checked(self, settings: Mapping[str, object]) -> PipelineConfig:
        try:
            return PipelineConfig.parse(settings)
        except ConfigError as error:
            # what is said of a file in general is no help with an option
            hint = "" if error.hint == codes.CONFIG_FILE_INVALID.remedy else error.hint
            raise codes.BUNDLE_SETTING_INVALID.error(error.what, where="bundle init", hint=hint) from None

    def _pipeline(self, target: str, suffix: str) -> str:
        lines = [*self._pipeline_lines(target, suffix)]
        text = "\n".join(lines) + "\n"
        settings = self._settings(suffix, self.password)
        self._checked(settings)
        assert {key: value for key, value in settings.items() if value} == yaml.safe_load(text)
        return text

    def _pipeline_lines(self, target: str, suffix: str) -> Iterator[str]:
        survey, settings = self.survey, self.config(suffix=suffix)
        yield f"# The pipeline of target {target}. Its catalog and its volume are those of databricks.yml."
        yield "# The source's tables when this was written; one that comes later and matches is captured, too:"
        for table in survey.tables.values():
            yield _comment(f"#   {_described(table, len(survey.excluded.get(table.name, ())))}")
        for name, reason in survey.left_out.items():
            yield _comment(f"# Left out: {name}, since {reason}")
        yield f"name: {_text(self.name)}"
        yield "source:"
        yield f"  url: {_text(self.url)}"
        yield f"  password: {_text(self.password)}"
        yield "  tables:"
        yield from (f"    - {_text(pattern)}" for pattern in settings.source.tables)
        yield f"  tls: {self.tls}"
        yield "target:"
        for key, value in ((key, getattr(settings.target, key)) for key in settings.target.given):
            yield f"  {key}: {_text(value) if isinstance(value, str) else json.dumps(value)}"
        if survey.excluded:
            yield "tables:"
        for name, columns in survey.excluded.items():
            yield f"  {_text(pattern_of(name))}:"
            yield "    exclude:"
            for column, reason in columns.items():
                yield _comment(f"      - {_text(column)}", f" # {reason}")

    def _resource(self, text: str) -> str:
        text = text.replace(_CLUSTER_LIBRARY, self.package.as_library)
        text = text.replace(_WHEEL, self.package.reference)
        text = text.replace(_FILE, "${workspace.file_path}/${var.config}")
        assert "../../" not in text
        assert "/bundles/" not in text
        return text


def write(folder: Path, texts: Mapping[str, str], package: Package) -> list[Path]:
    """Write the files, and the wheel that goes with them; their paths.

    Raises ConfigError, with nothing written, if one of them is there.
    """
    places = {folder / name: text for name, text in texts.items()}
    wheel = None if package.wheel is None else folder / "wheels" / package.wheel.name
    wanted = [*places, *([] if wheel is None else [wheel])]
    if there := [str(path) for path in wanted if path.exists()]:
        raise codes.BUNDLE_FOLDER_UNUSABLE.error(
            f"{', '.join(there)} is there already", hint="choose another folder, or move it away"
        )
    begun: list[Path] = []
    try:
        for path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            begun.append(path)
            if path == wheel and package.wheel is not None:
                shutil.copyfile(package.wheel, path)
            else:
                path.write_text(places[path], encoding="utf-8")
    except OSError as error:
        for path in begun:
            path.unlink(missing_ok=True)
        raise codes.BUNDLE_FOLDER_UNUSABLE.error(
            f"cannot write to {folder}: {error.strerror}", hint="choose another folder"
        ) from error
    return wanted


def _resources() -> Path:
    """The jobs of the project's own bundle: packed into the wheel, in a checkout where they are."""
    packed = _HERE / "resources"
    return packed if packed.is_dir() else _HERE.parents[1] / "bundles" / "resources"


def _described(table: TableSchema, excluded: int) -> str:
    key = ", ".join(f"{column.name} {column.declared}" for column in table.key_columns)
    without = f", {excluded} of them excluded" if excluded else ""
    return f"{table.name}: columns: {len(table.columns)}{without}; key: {key}"


def _text(value: str) -> str:
    """A string as both JSON and YAML read it, on one line: YAML knows more line breaks, and no surrogates."""
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}"
        for c in json.dumps(value, ensure_ascii=False)
    )


def _comment(*parts: str) -> str:
    """One line, whatever names hold."""
    return "".join(c if c.isprintable() else "?" for c in "".join(parts))
