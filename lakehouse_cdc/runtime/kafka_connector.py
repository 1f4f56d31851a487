"""Spark's own connector of Kafka, for a session that has been started without it.

Its jars are pinned by checksum, as Delta's are (see `jars`); all else that they depend on is among the jars of Spark.
A session that has the connector already, as on Databricks, keeps its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse_cdc.runtime.jars import Jar, fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.2.0",
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)
_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def with_connector(spark: SparkSession) -> None:
    """Add the connector to a session, where it has none. Raises as `jars.fetch` does."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm is not None and jvm.org.apache.spark.util.Utils.classIsLoadable(_PROVIDER):
        return
    for path in fetch(CONNECTOR, f"the {len(CONNECTOR)} jars of Spark's connector of Kafka (10 MB)"):
        spark.sql(f"ADD JAR '{path.as_uri()}'")
