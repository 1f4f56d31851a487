"""The files of a bundle, as text: `template/`, with what is of the pipeline in its places.

The project's own bundle, `bundles/`, is made by the same templates, so its tests are tests of what users get. A line
`@[name]` begins lines that only some bundles have, and `@[]` ends them:

- `built` and `given`: the wheel is built with each deployment, as the project's own; or it is there,
- `package`: it is in the workspace, so a variable names it,
- `scope`: the bundle makes the scope of its secret, which is not the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from lakehouse_cdc.bundle.wheel import file_name, write_wheel
from lakehouse_cdc.draft.files import write
from lakehouse_cdc.draft.pipeline_file import Draft, text_of
from lakehouse_cdc.errors import codes

_TEMPLATE = Path(__file__).parent / "template"
_SCOPE_RESOURCE = "resources/source.secret_scope.yml"
_SERVER_IDS = "1700010000-1700019999"  # of the declarative pipeline: not those of the jobs, which are the default
_KEY = "mysql_password"
_PLACE = re.compile(r"@\{(\w+)\}")  # `${name}` is the bundle's own
CLOUDS = {"aws": "${var.node_types.aws}", "azure": "${var.node_types.azure}", "gcp": "${var.node_types.gcp}"}


@dataclass(frozen=True)
class Package:
    """The wheel that the jobs install.

    `named` is how the resources name it; `wheel` the file of this machine that is copied into the bundle, None where it
    is made of what is installed here; `section` the lines of the template that are of it alone.
    """

    named: str
    section: str = ""
    wheel: Path | None = None

    @classmethod
    def of(cls, given: str) -> Package:
        """From what the user gave: nothing, a path of Databricks' (/Volumes, /Workspace), or one of this machine."""
        if not given:
            return cls(f"../wheels/{file_name()}")
        if given.startswith(("/Volumes/", "/Workspace/")) and given.endswith(".whl"):
            return cls(given, "package")
        wheel = Path(given)
        if wheel.suffix != ".whl" or not wheel.is_file():
            hint = "build one with `uv build --wheel`, or name one in /Volumes/ or /Workspace/"
            raise codes.DRAFT_SETTING_INVALID.error(f"{given} is no wheel", where="--wheel", hint=hint)
        return cls(f"../wheels/{wheel.name}", wheel=wheel)

    @classmethod
    def built(cls) -> Package:
        """The project's own, one folder above the bundle."""
        return cls("../../dist/*.whl", "built")

    @property
    def reference(self) -> str:
        """As the resources name it: by a variable, but for a path that is relative to their own file."""
        return "${var.package}" if self.section == "package" else self.named

    @contextmanager
    def file(self) -> Iterator[Path | None]:
        """The file that is copied into the bundle, None where it needs none. Raises OSError."""
        with TemporaryDirectory() as folder:
            made = Path(folder) / file_name()
            if not self.section and self.wheel is None:
                write_wheel(made)
            yield None if self.section else self.wheel or made


@dataclass(frozen=True)
class Plan:
    """What is to be written: the pipeline of target prod, what is beside it, and what the jobs install and run on.

    `schema` is the schema of the volume for checkpoints. In target dev the schemas are others, and the scope, too;
    `scope` is "" where the bundle makes none. `node_type` is a name of the cloud's, or one of `CLOUDS`' values.
    """

    draft: Draft
    schema: str
    package: Package
    node_type: str
    uuid: str
    warehouse: str
    scope: str = ""

    @classmethod
    def target(cls, catalog: str, schema: str, bronze: str, silver: str) -> dict[str, str | bool]:
        """The section `target` of the pipeline's file."""
        checkpoints = f"/Volumes/{catalog}/{schema}/checkpoints"
        return {"catalog": catalog, "bronze": bronze, "silver": silver, "checkpoints": checkpoints, "metrics": True}

    @classmethod
    def password(cls, scope: str) -> str:
        """How the pipelines' files name the secret of a scope that the bundle makes."""
        return f"${{secret:{scope}/{_KEY}}}"

    @property
    def bundle(self) -> str:
        """The bundle's name, which those of its jobs begin with."""
        return f"lakehouse-cdc-{self.draft.name}"

    @property
    def steps(self) -> list[str]:
        """The commands that bring target dev to life, in the bundle's folder. A deployment makes the scope."""
        secret = [f"databricks secrets put-secret {_of_dev(self.scope)} {_KEY}"] if self.scope else []
        begin = ["databricks bundle validate --strict -t dev", "databricks bundle deploy -t dev"]
        return [*begin, *secret, *(f"databricks bundle run -t dev {job}" for job in ("doctor", "ingest"))]

    def files(self) -> dict[str, str]:
        """The text of every file by its path in the bundle. Raises ConfigError for what no pipeline's file may hold."""
        built = self.package.section == "built"
        sections = {"built"} if built else {"given", self.package.section}
        sections |= {"scope"} if self.scope else set()
        values = self._values()
        files = {}
        for path in sorted(path for path in _TEMPLATE.rglob("*") if path.suffix in (".yml", ".json", ".txt")):
            name, text = path.relative_to(_TEMPLATE).as_posix(), path.read_text(encoding="utf-8")
            if path.suffix == ".yml" and (self.scope or name != _SCOPE_RESOURCE):
                files[name] = _PLACE.sub(lambda place: values[place[1]], "".join(_chosen(text, sections)))
            elif path.suffix != ".yml":
                files[name.removesuffix(".txt")] = text
        for target, suffix in (("prod", ""), ("dev", ".dev")):
            files[f"pipeline{suffix}.yml"] = self._pipeline(target, declarative=False)
            files[f"declarative{suffix}.yml"] = self._pipeline(target, declarative=True)
        return files

    def _values(self) -> dict[str, str]:
        """What is in the places of the templates, as YAML has it."""
        target = {key: str(value) for key, value in self.draft.target.items()}
        name = self.draft.name
        names = {"schema": self.schema, "bronze": target["bronze"], "silver": target["silver"], "scope": self.scope}
        names |= {f"declarative_{layer}": f"{name}_declarative_{layer}" for layer in ("bronze", "silver")}
        texts = {"pipeline": name, "bundle": self.bundle, "uuid": self.uuid, "catalog": target["catalog"]}
        texts |= {"warehouse": self.warehouse, "package": self.package.named, **names}
        texts |= {f"{key}_dev": _of_dev(value) for key, value in names.items()}
        built = self.package.section == "built"
        return {
            **{key: text_of(value) for key, value in texts.items()},
            "wheel": self.package.reference,
            "files": "${workspace.file_path}/bundles" if built else "${workspace.file_path}",
            "node_type": self.node_type if self.node_type in CLOUDS.values() else text_of(self.node_type),
        }

    def _pipeline(self, target: str, *, declarative: bool) -> str:
        named = _of_dev if target == "dev" else str
        given, name = self.draft.target, self.draft.name
        layers = [f"{name}_declarative_{layer}" if declarative else str(given[layer]) for layer in ("bronze", "silver")]
        place = self.target(str(given["catalog"]), *map(named, (self.schema, *layers)))
        draft = replace(self.draft, target=place)
        heading = [f"The pipeline of target {target}. Its catalog and its schemas are those of databricks.yml."]
        if declarative:
            without_metrics = {key: value for key, value in place.items() if key != "metrics"}
            draft = replace(draft, name=f"{name}_declarative", target=without_metrics, server_ids=_SERVER_IDS)
            shared = "It shares nothing with the jobs' but the source: one table has one writer."
            heading = [f"The declarative pipeline of target {target}. {shared}"]
        if self.scope:
            draft = replace(draft, password=self.password(named(self.scope)))
            heading.append(f"The password: databricks secrets put-secret {named(self.scope)} {_KEY}")
        if draft.survey.tables:
            heading.append(
                "The source's tables when this was written; one that comes later and matches is captured, too:"
            )
        return draft.text(heading)

    def write(self, folder: Path) -> list[Path]:
        """Write the files, and the wheel that goes with them; their paths. Raises what `draft.files.write` does."""
        texts = {folder / name: text for name, text in self.files().items()}
        with self.package.file() as wheel:
            return write(texts, {} if wheel is None else {folder / "wheels" / wheel.name: wheel})


def _of_dev(name: str) -> str:
    return f"{name}_dev"


def _chosen(text: str, sections: set[str]) -> Iterator[str]:
    """The lines that a bundle of these sections has."""
    section = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("@["):
            section = line.strip()[2:-1]
        elif not section or section in sections:
            yield line
