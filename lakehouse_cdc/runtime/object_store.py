"""Spark's way to tables in S3: the jars, the settings, and what a session must have.

Purpose: a session of ours gets Hadoop's file system for S3 where the tables of a pipeline lie there, and nothing of it
where they do not. A session of somebody else's is used if it has the same.

Invariant: a version of a table's log is written once, whatever else writes, and so is a file of a checkpoint that is
there. No key is in a setting of Spark's, on a command line, in a log or in an error.

Why it holds: all commits of Delta to `s3a://` go through `ConditionalPutLogStore` (see `java_store`), and a session
that has another store is refused. All files of checkpoints there go through `ConditionalPutCheckpointFiles`. The keys
are set in Hadoop's configuration of the running JVM, for the one bucket alone; Spark's own settings, which are
arguments of a process, have none of them.

Hadoop's jar declares the whole SDK of AWS (686 MB) as its dependency. What it uses of it for this are the modules below
(13 MB); what these need beside, Spark has.

Sources: "Hadoop-AWS module" (configuration of buckets, S3A committers and credential providers), Hadoop 3.5.0.
Guards: tests/object_store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.place import Storage as Storage
from lakehouse_cdc.runtime.databricks import on_databricks
from lakehouse_cdc.runtime.jars import fetch, listed
from lakehouse_cdc.runtime.java_store import CHECKPOINT_FILES, JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3 = listed(Path(__file__).with_name("object_store_jars.txt"))
LOG_STORE = "lakehouse_cdc.store.ConditionalPutLogStore"
_SETTINGS = {"spark.delta.logStore.s3a.impl": LOG_STORE}
_FILES = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_OF_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_OF_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_OF_ENVIRONMENT = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def session_jars() -> Sequence[Path]:
    """The jars that a session needs beside Delta's, fetched once. Raises as `jars.fetch` does."""
    return [*fetch(S3, f"the {len(S3)} jars of Hadoop's file system for S3 (13 MB)"), JAR]


def session_settings() -> Mapping[str, str]:
    """The settings that a session needs beside the jars; they are read as it starts."""
    return dict(_SETTINGS)


def reach(spark: SparkSession, bucket: str, storage: Storage) -> None:
    """Have a session, made by whomever, reach a bucket.

    Raises DefiniteError where it has no file system for S3, or another store of Delta's log.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if on_databricks() or jvm is None:
        raise codes.OBJECT_STORE_UNSUPPORTED.error(
            "tables in S3 by their path need a session of open source Spark",
            hint="on Databricks, and by Spark Connect, set target.catalog in place of target.path",
        )
    loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    lacking = next((name for name in (_FILES, LOG_STORE) if not loadable(name)), "")
    if not lacking:
        actual = dict(spark.sparkContext.getConf().getAll())
        lacking = next((f"{k}={v}" for k, v in _SETTINGS.items() if actual.get(k) != v), "")
    if lacking:
        raise codes.OBJECT_STORE_UNSUPPORTED.error(f"the Spark session of this process lacks {lacking}")
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in hadoop_settings(storage).items():
        key = f"fs.s3a.bucket.{bucket}.{name}"
        if value:
            configuration.set(key, value)
        else:
            configuration.unset(key)


def keep_checkpoints(spark: SparkSession) -> None:
    """Have the checkpoints of a session's streams, where they are in S3, kept by `ConditionalPutCheckpointFiles`.

    To be called after `reach`. Raises DefiniteError where Spark is too old for that.
    """
    jvm: Any = spark._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(CHECKPOINT_FILES):
        raise codes.OBJECT_STORE_UNSUPPORTED.error(
            f"Spark {spark.version} cannot keep checkpoints in S3",
            hint="use Spark 4.2, or name a folder under target.checkpoints: the next run then begins a new epoch"
            " over the tables",
        )
    spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_FILES)


def hadoop_settings(storage: Storage) -> dict[str, str]:
    """Hadoop's settings of a bucket, keys among them, by their names after `fs.s3a.`; empty for what is not to be set.

    With an endpoint of its own a bucket is a part of the path, not of the host's name, which few servers know.
    """
    own = _OF_KEYS if storage.access_key else _OF_ENVIRONMENT
    return {
        "endpoint": storage.endpoint,
        "endpoint.region": storage.region or ("us-east-1" if storage.endpoint else ""),
        "path.style.access": "true" if storage.endpoint else "",
        "access.key": storage.access_key,
        "secret.key": storage.secret_key,
        "aws.credentials.provider": _OF_ROLE if storage.role_arn else own,
        "assumed.role.arn": storage.role_arn,
        "assumed.role.credentials.provider": own if storage.role_arn else "",
    }
