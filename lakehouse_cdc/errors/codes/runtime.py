"""Codes 7xxx: Spark, Java, downloads, and the Databricks workspace."""

from lakehouse_cdc.errors.tree import Code, ConfigError, DefiniteError, Scope, TransientError

CACHE_UNUSABLE = Code(
    7001,
    "cache_unusable",
    DefiniteError,
    Scope.PIPELINE,
    "The cache directory cannot be used.",
    "Set the environment variable that the error names to a directory that you may write to.",
)

JAR_ALTERED = Code(
    7002,
    "jar_altered",
    DefiniteError,
    Scope.PIPELINE,
    "A downloaded JAR is not the one that is expected.",
    "Remove it from the package source, or from the local cache of Maven (~/.m2) or Ivy (~/.ivy2), and try again.",
)

DOWNLOAD_FAILED = Code(
    7003,
    "download_failed",
    TransientError,
    Scope.PIPELINE,
    "A file that the first start needs could not be downloaded.",
    "Check the network, or set a mirror (DEFAULT_ARTIFACT_REPOSITORY for Spark, settings.xml for Maven).",
)

JAVA_MISSING = Code(
    7004,
    "java_missing",
    DefiniteError,
    Scope.PIPELINE,
    "No Java 17 or later was found.",
    "Install a JDK 17 or 21, and set JAVA_HOME; or what the extra `local` brings, as the error says.",
)

PYSPARK_MISSING = Code(
    7005,
    "pyspark_missing",
    DefiniteError,
    Scope.PIPELINE,
    "PySpark is not installed.",
    "Install what the extra `local` brings: the error says the command.",
)

SPARK_WITHOUT_DELTA = Code(
    7006,
    "spark_without_delta",
    DefiniteError,
    Scope.PIPELINE,
    "Spark was started in this process, and has no Delta.",
    "Run this in a process of its own, or call lakehouse_cdc.runtime.session.local_session() before anything else "
    "starts Spark.",
)

WORKSPACE_LOGIN_MISSING = Code(
    7007,
    "workspace_login_missing",
    ConfigError,
    Scope.PIPELINE,
    "No login to a Databricks workspace is configured, or the workspace refuses it.",
    "Configure a login (databricks auth login).",
)

WORKSPACE_REFUSED = Code(
    7008,
    "workspace_refused",
    ConfigError,
    Scope.PIPELINE,
    "The Databricks workspace refused the request.",
    "Check the name in the error, and the rights of the login.",
)

WORKSPACE_FAILED = Code(
    7009,
    "workspace_failed",
    TransientError,
    Scope.PIPELINE,
    "The Databricks workspace failed or cannot be reached.",
    "Check DATABRICKS_HOST, and try again later.",
)

SPARK_FAILED = Code(
    7010,
    "spark_failed",
    TransientError,
    Scope.PIPELINE,
    "Spark failed for a reason that this package does not know.",
    "Read Spark's log, or run with --verbose for the whole trace; then run again.",
)

DELTA_FAILED = Code(
    7011,
    "delta_failed",
    DefiniteError,
    Scope.PIPELINE,
    "Delta Lake refused an operation.",
    "Read Delta's message in the error, and change what it names.",
)

PYTHON_WORKER_LATE = Code(
    7012,
    "python_worker_late",
    TransientError,
    Scope.PIPELINE,
    "A Python process of Spark took more than 10 seconds to start.",
    "Run again; the machine has too much other work.",
)

OBJECT_STORE_UNSUPPORTED = Code(
    7013,
    "object_store_unsupported",
    DefiniteError,
    Scope.PIPELINE,
    "The Spark session cannot keep tables in an object store.",
    "Let the pipeline make its session, in a process of its own; or give yours, as it starts, the jars and the settings"
    " of lakehouse_cdc.runtime.object_store.",
)

OBJECT_STORE_REFUSED = Code(
    7014,
    "object_store_refused",
    ConfigError,
    Scope.PIPELINE,
    "The object store does not know the bucket or the keys, or does not allow what was asked for.",
    "Check the bucket of target.path and the keys under target.storage, and allow these to list the bucket, and to get,"
    " put and delete its objects.",
)

OBJECT_STORE_UNAVAILABLE = Code(
    7015,
    "object_store_unavailable",
    TransientError,
    Scope.PIPELINE,
    "The object store cannot be reached, or failed.",
    "Check target.storage.endpoint, and that the store runs; a run tries again.",
)

LEASE_LOST = Code(
    7016,
    "lease_lost",
    TransientError,
    Scope.PIPELINE,
    "This process did not renew its right to write to the tables in time; another one may have it.",
    "Check with status that no other run writes to the tables, and run again.",
)

CATALOG_CONNECTION_UNUSABLE = Code(
    7017,
    "catalog_connection_unusable",
    ConfigError,
    Scope.PIPELINE,
    "The connection of Unity Catalog that source.url names is none of MySQL's, or does not say host and user.",
    "Name a connection of the type MYSQL, with a host and a user, or write source.url as mysql://user@host:port.",
)

DISK_REFUSES = Code(
    7018,
    "disk_refuses",
    TransientError,
    Scope.PIPELINE,
    "A disk that the run writes to is full, or refuses to be written.",
    "Make room in the folder that the error names, or let this user write to it; a run tries again.",
)

PLANNER_ENDED = Code(
    7019,
    "planner_ended",
    TransientError,
    Scope.PIPELINE,
    "The Python process in which Spark has the stream planned was ended from outside.",
    "See in the system's log whether it had no memory left, and give the machine more; a run tries again.",
)

FOLDER_NOT_SHARED = Code(
    7020,
    "folder_not_shared",
    ConfigError,
    Scope.PIPELINE,
    "The server of Spark Connect, or its tasks, do not see the folder of the tables as this process does.",
    "Name a folder that all of them have under this name, or set target.catalog in place of target.path.",
)

REMOTE_SESSION_UNSUPPORTED = Code(
    7021,
    "remote_session_unsupported",
    DefiniteError,
    Scope.PIPELINE,
    "This cannot be done on a session of Spark Connect.",
    "Run it where Spark is in the same process: on a cluster in dedicated access mode, by spark-submit, or without"
    " spark.remote.",
)
