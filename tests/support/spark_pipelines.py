"""Open-source `spark-pipelines run` in a folder: its own Spark, warehouse and storage, as a user would start it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark

from lakehouse_cdc.runtime.jars import fetch
from lakehouse_cdc.runtime.java import java_home
from lakehouse_cdc.runtime.session import CATALOG, DELTA, EXTENSION
from lakehouse_cdc.workers.launcher import python

HOME = Path(pyspark.__file__).parent
DEFINITION = Path(__file__).parents[2] / "bundles" / "definition.py"
COMPLETED = "Run is COMPLETED"


@dataclass(frozen=True)
class SparkPipelines:
    """A declarative pipeline in `folder`, by the bundle's definition file."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        """The tables of the schema `default`, which is always there, lie at `<warehouse>/<table>`."""
        return self.folder / "warehouse"

    def prepare(self, config: str) -> None:
        """Write what an update needs; `config` is the text of the pipeline's file."""
        (self.folder / "pipeline.yml").write_text(config)
        shutil.copy(DEFINITION, self.folder)
        (self.folder / "spark-pipeline.yml").write_text(
            f"name: tests\nstorage: file://{self.folder}/storage\ncatalog: spark_catalog\ndatabase: default\n"
            "libraries:\n  - glob: {include: definition.py}\n"
            f"configuration:\n  lakehouse_cdc.config: {self.folder}/pipeline.yml\n"
        )
        jars = ":".join(str(path) for path in fetch(DELTA))
        settings = {
            "spark.driver.extraClassPath": jars,  # other ways to name them are not seen
            "spark.executor.extraClassPath": jars,
            "spark.sql.extensions": EXTENSION,
            "spark.sql.catalog.spark_catalog": CATALOG,
            "spark.sql.sources.default": "delta",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.warehouse),
            "spark.sql.catalogImplementation": "hive",  # a catalog that the next update finds again
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder}/hive;create=true",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        }
        (self.folder / "conf").mkdir()
        lines = "".join(f"{key} {value}\n" for key, value in settings.items())
        (self.folder / "conf" / "spark-defaults.conf").write_text(lines)

    def run(self) -> str:
        """One update: what it printed. The exit code is not asked: it may be 1 after an update that is complete."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": python(),  # a machine that is busy with tests starts others too late for Spark
            "SPARK_TESTING": "1",  # a port that is free, for the server and its client; else it is always 15002
        }
        command = [str(HOME / "bin" / "spark-pipelines"), "run", "--spec", str(self.folder / "spark-pipeline.yml")]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=400)
        return done.stdout + done.stderr
