"""The files of a user's bundle, as text.

The jobs are not a copy: `resources/*.yml` are the ones of the project's own bundle, which its tests validate, with the
wheel that is built there replaced by the user's package, and the place of the pipeline's file. A path of the project's
that is left over is an error, so the two cannot drift apart unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from lakehouse_cdc.draft.files import write
from lakehouse_cdc.draft.pipeline_file import Draft, text_of
from lakehouse_cdc.errors import codes

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
            raise codes.DRAFT_SETTING_INVALID.error(f"{given} is no wheel", where="--wheel", hint=hint)
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
        return _VARIABLE.format(what=what, default=text_of(self.named))


@dataclass(frozen=True)
class Plan:
    """What is to be written: the pipeline of target prod, what is beside it, and what the jobs install and run on.

    `schema` is the schema of the volume for checkpoints. In target dev the schemas are others.
    """

    draft: Draft
    schema: str
    package: Package
    node_type: str

    @classmethod
    def target(cls, catalog: str, schema: str, bronze: str, silver: str) -> dict[str, str | bool]:
        """The section `target` of the pipeline's file."""
        checkpoints = f"/Volumes/{catalog}/{schema}/checkpoints"
        return {"catalog": catalog, "bronze": bronze, "silver": silver, "checkpoints": checkpoints, "metrics": True}

    @property
    def bundle(self) -> str:
        """The bundle's name, which those of its jobs begin with."""
        return f"lakehouse-cdc-{self.draft.name}"

    def files(self) -> dict[str, str]:
        """The text of every file by its path in the bundle. Raises ConfigError for what no pipeline's file may hold."""
        values = {
            "name": self.draft.name,
            "bundle": text_of(self.bundle),
            "catalog": text_of(str(self.draft.target["catalog"])),
            "package": self.package.variable,
            "node_type": text_of(self.node_type),
            "schema": text_of(self.schema),
            "schema_dev": text_of(f"{self.schema}_dev"),
        }
        files = {
            "databricks.yml": _Template((_HERE / "databricks.yml").read_text(encoding="utf-8")).substitute(values),
            "pipeline.yml": self._pipeline("prod", self.draft),
            "pipeline.dev.yml": self._pipeline("dev", self._of_dev()),
        }
        for name in RESOURCES:
            files[f"resources/{name}"] = self._resource((_resources() / name).read_text(encoding="utf-8"))
        return files

    def _of_dev(self) -> Draft:
        target = self.draft.target
        names = (str(target["catalog"]), *(f"{name}_dev" for name in (self.schema, target["bronze"], target["silver"])))
        return replace(self.draft, target=self.target(*names))

    def _pipeline(self, target: str, draft: Draft) -> str:
        return draft.text(
            [
                f"The pipeline of target {target}. Its catalog and its volume are those of databricks.yml.",
                "The source's tables when this was written; one that comes later and matches is captured, too:",
            ]
        )

    def _resource(self, text: str) -> str:
        text = text.replace(_CLUSTER_LIBRARY, self.package.as_library)
        text = text.replace(_WHEEL, self.package.reference)
        text = text.replace(_FILE, "${workspace.file_path}/${var.config}")
        assert "../../" not in text
        assert "/bundles/" not in text
        return text

    def write(self, folder: Path) -> list[Path]:
        """Write the files, and the wheel that goes with them; their paths. Raises what `draft.files.write` does."""
        wheel = self.package.wheel
        copies = {} if wheel is None else {folder / "wheels" / wheel.name: wheel}
        return write({folder / name: text for name, text in self.files().items()}, copies)


def _resources() -> Path:
    """The jobs of the project's own bundle: packed into the wheel, in a checkout where they are."""
    packed = _HERE / "resources"
    return packed if packed.is_dir() else _HERE.parents[1] / "bundles" / "resources"
