"""Spark's way to tables in a store: the jars, the settings, and what a session must have.

Purpose: a session of ours gets Hadoop's file system for a kind of store where the tables of a pipeline lie in one, and
nothing of it where they do not. A session of somebody else's is used if it has the same.

Invariant: a version of a table's log is written once, whatever else writes, and so is a file of a checkpoint that is
there. No key is in a setting of Spark's, on a command line, in a log or in an error.

Why it holds: all commits of Delta to a store go through `ConditionalPutLogStore` (see `java_store`), and a session that
has another one is refused. All files of checkpoints there go through `ConditionalPutCheckpointFiles`. The keys are set
in Hadoop's configuration of the running JVM, for the one bucket or account alone; Spark's own settings, which are
arguments of a process, have none of them.

Hadoop's jar for S3 declares the whole SDK of AWS (686 MB) as its dependency. What it uses of it for this are the
modules in the list (13 MB); what these need beside, Spark has.

Sources: "Hadoop-AWS module" (configuration of buckets, S3A committers and credential providers), "Hadoop Azure Support:
ABFS", Hadoop 3.5.0. Guards: tests/object_store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import codes
from lakehouse_cdc.model.place import Address, Kind, address, kind_of
from lakehouse_cdc.model.place import Storage as Storage
from lakehouse_cdc.runtime.databricks import on_databricks
from lakehouse_cdc.runtime.jars import Jar, fetch, listed
from lakehouse_cdc.runtime.java_store import CHECKPOINT_FILES, JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_STORE = "lakehouse_cdc.store.ConditionalPutLogStore"
_OF_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_OF_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_OF_ENVIRONMENT = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_AZURE = "org.apache.hadoop.fs.azurebfs."


@dataclass(frozen=True)
class HadoopFiles:
    """Hadoop's file system for a kind of store: the jars of a list, what a session must have, and how it is configured.

    `settings` are Spark's, and are read as a session starts. `configuration` is Hadoop's of one place, keys among it;
    what is not to be set is empty there.
    """

    store: str
    jars: str
    size: str
    file_system: str
    configuration: Callable[[Address, Storage], dict[str, str]]
    settings: Mapping[str, str] = field(default_factory=dict)

    def pinned(self) -> tuple[Jar, ...]:
        """The jars, by coordinates and checksum."""
        return listed(Path(__file__).with_name(self.jars))


def s3_configuration(place: Address, storage: Storage) -> dict[str, str]:
    """With an endpoint of its own a bucket is a part of the path, not of the host's name, which few servers know."""
    own = _OF_KEYS if storage.access_key else _OF_ENVIRONMENT
    settings = {
        "endpoint": storage.endpoint,
        "endpoint.region": storage.region or ("us-east-1" if storage.endpoint else ""),
        "path.style.access": "true" if storage.endpoint else "",
        "access.key": storage.access_key,
        "secret.key": storage.secret_key,
        "aws.credentials.provider": _OF_ROLE if storage.role_arn else own,
        "assumed.role.arn": storage.role_arn,
        "assumed.role.credentials.provider": own if storage.role_arn else "",
    }
    return {f"fs.s3a.bucket.{place.bucket}.{name}": value for name, value in settings.items()}


def azure_configuration(place: Address, storage: Storage) -> dict[str, str]:
    """Of an account; an endpoint of its own, which is an emulator's, speaks the protocol of blobs alone."""
    settings = {
        "account.auth.type": "SharedKey" if storage.account_key else "OAuth",
        "account.key": storage.account_key,
        **({} if storage.account_key else _azure_environment(os.environ)),
    }
    configuration = {f"fs.azure.{name}.{place.account}": value for name, value in settings.items()}
    configuration["fs.azure.metrics.collection.enabled"] = "false"  # two who read one file at one moment may fail by it
    if not storage.endpoint:
        return configuration
    scheme, _, server = storage.endpoint.partition("://")
    emulator = {
        "fs.azure.abfs.endpoint": server,
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.ingress.service.type": "BLOB",
        "fs.azure.always.use.https": "false" if scheme == "http" else "true",
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    }
    return {**configuration, **emulator}


def _azure_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Whose credentials the environment has, by the variables that the clients of Azure's SDK read."""
    tenant, client = environment.get("AZURE_TENANT_ID", ""), environment.get("AZURE_CLIENT_ID", "")
    authority = environment.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    of_client = {"account.oauth2.client.id": client}
    if token := environment.get("AZURE_FEDERATED_TOKEN_FILE"):
        return of_client | {
            "account.oauth.provider.type": f"{_AZURE}oauth2.WorkloadIdentityTokenProvider",
            "account.oauth2.token.file": token,
            "account.oauth2.msi.tenant": tenant,
            "account.oauth2.msi.authority": f"{authority}/",
        }
    if secret := environment.get("AZURE_CLIENT_SECRET"):
        return of_client | {
            "account.oauth.provider.type": f"{_AZURE}oauth2.ClientCredsTokenProvider",
            "account.oauth2.client.secret": secret,
            "account.oauth2.client.endpoint": f"{authority}/{tenant}/oauth2/token",
        }
    return of_client | {"account.oauth.provider.type": f"{_AZURE}oauth2.MsiTokenProvider"}


FILES: Mapping[Kind, HadoopFiles] = {
    "s3": HadoopFiles(
        "S3", "s3_jars.txt", "13 MB", "org.apache.hadoop.fs.s3a.S3AFileSystem", s3_configuration,
        {"spark.delta.logStore.s3a.impl": LOG_STORE},
    ),
    "abfs": HadoopFiles(
        "Azure", "azure_jars.txt", "0.8 MB", f"{_AZURE}AzureBlobFileSystem", azure_configuration,
        {f"spark.delta.logStore.{scheme}.impl": LOG_STORE for scheme in ("abfs", "abfss")},
    ),
}  # fmt: skip


def session_jars(kind: Kind = "s3") -> Sequence[Path]:
    """The jars that a session needs beside Delta's, fetched once. Raises as `jars.fetch` does."""
    files = FILES[kind]
    jars = files.pinned()
    return [*fetch(jars, f"the {len(jars)} jars of Hadoop's file system for {files.store} ({files.size})"), JAR]


def session_settings(kind: Kind = "s3") -> Mapping[str, str]:
    """The settings that a session needs beside the jars; they are read as it starts."""
    return dict(FILES[kind].settings)


def reach(spark: SparkSession, location: str, storage: Storage) -> None:
    """Have a session, made by whomever, reach the bucket of a location.

    Raises DefiniteError where it has no file system for such a store, or another store of Delta's log.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if on_databricks() or jvm is None:
        raise codes.OBJECT_STORE_UNSUPPORTED.error(
            "tables in a store by their path need a session of open source Spark",
            hint="on Databricks, and by Spark Connect, set target.catalog in place of target.path",
        )
    files = FILES[kind_of(location)]
    loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    lacking = next((name for name in (files.file_system, LOG_STORE) if not loadable(name)), "")
    if not lacking:
        actual = dict(spark.sparkContext.getConf().getAll())
        lacking = next((f"{k}={v}" for k, v in files.settings.items() if actual.get(k) != v), "")
    if lacking:
        raise codes.OBJECT_STORE_UNSUPPORTED.error(f"the Spark session of this process lacks {lacking}")
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in files.configuration(address(location), storage).items():
        if value:
            configuration.set(name, value)
        else:
            configuration.unset(name)


def keep_checkpoints(spark: SparkSession) -> None:
    """Have the checkpoints of a session's streams, where they are in a store, kept by `ConditionalPutCheckpointFiles`.

    To be called after `reach`. Raises DefiniteError where Spark is too old for that.
    """
    jvm: Any = spark._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(CHECKPOINT_FILES):
        raise codes.OBJECT_STORE_UNSUPPORTED.error(
            f"Spark {spark.version} cannot keep checkpoints in a store",
            hint="use Spark 4.2, or name a folder under target.checkpoints: the next run then begins a new epoch"
            " over the tables",
        )
    spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", CHECKPOINT_FILES)
