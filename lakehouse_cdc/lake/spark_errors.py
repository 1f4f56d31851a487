"""What Spark and Delta report, as codes of ours; the one place that reads their exceptions.

Decisions go by Spark's error conditions and by the classes of the exceptions, of the exception itself and of all its
causes on the Java side. Only one failure has neither, that of a Python process that starts too late: Spark throws a
plain SparkException for it (PythonWorkerFactory), so its text decides.
Tests: tests/errors; what is done again after a conflict: tests/pipeline, tests/ops.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lakehouse_cdc.errors import CdcError, Code, codes
from lakehouse_cdc.errors.codec import crossing, decoded
from lakehouse_cdc.lake.refused_writes import refused_by_disk

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from lakehouse_cdc.lake.micro_batches import MicroBatches

_CONFLICTS = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_CONSTRAINTS = {
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": ("column", "columnName"),
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": ("check", "constraintName"),
}
_CONFLICT_CLASS = re.compile(r"(Concurrent\w+|MetadataChanged|ProtocolChanged)Exception")  # Delta's, where unclassified
_JAVA = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
_CALLED = "An error occurred while calling "  # py4j's line before that of the exception
_NO_BROKER = ("TimeoutException", "DisconnectException", "NetworkException", "BrokerNotAvailableException")
_REFUSALS = ("AccessDeniedException", "UnknownStoreException", "NoAuthWithAWSException", "NoAwsCredentialsException")
# packages of the clients of stores: of S3, and of Azure's
_OF_STORE = ("org.apache.hadoop.fs.s3a.", "software.amazon.awssdk.", "org.apache.hadoop.fs.azurebfs.")
_ANSWER = "software.amazon.awssdk.core.exception.SdkServiceException"  # one of the store's, as the client met it
_FORBIDDEN = (401, 403)  # of HTTP
_WITH_HINTS = (
    codes.TOPIC_RECORDS_LOST, codes.KAFKA_UNAVAILABLE, codes.OBJECT_STORE_REFUSED, codes.OBJECT_STORE_UNAVAILABLE,
    codes.PLANNER_ENDED, codes.LEASE_LOST,
)  # fmt: skip
_PLANNED_BY_ANOTHER = "CONCURRENT_STREAM_LOG_UPDATE"  # a file of the checkpoint that this query was about to create
_PLANNER = "org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner"  # Spark's end of the pipe
_ENDED = ("java.io.EOFException", "java.net.SocketException")
_LATE = "Python worker failed to connect back"
DYING_SECONDS = 10.0  # which a JVM may take to end when it was killed
_CONDITION = re.compile(r"\[([A-Z][A-Z_0-9]+(?:\.[A-Z_0-9]+)?)\]")
_DEEPEST = 50  # causes; a chain of them has no cycle, but nothing promises that


def is_conflict(error: BaseException) -> bool:
    """Whether Delta refused a commit because of another that was made meanwhile; then it has changed nothing."""
    classes = [type(error).__name__, *(java.getClass().getSimpleName() for java in _java_causes(error))]
    return any(condition.startswith(_CONFLICTS) for condition in conditions(error)) or any(
        _CONFLICT_CLASS.fullmatch(name) for name in classes
    )


def failure_of(query: StreamingQuery | MicroBatches) -> BaseException | None:
    """What ended a streaming query, with its causes on the Java side, which PySpark drops; None if nothing has."""
    failure = query.exception()
    if failure is not None and (classic := getattr(query, "_jsq", None)) is not None:
        failure.java_exception = classic.exception().get()  # type: ignore[attr-defined]  # as py4j names it
    return failure


def conditions(error: BaseException) -> list[str]:
    """Spark's error conditions of an exception and of its causes, outermost first.

    A remote session knows that of the exception alone, and of its causes their text, which begins with it.
    """
    names = (_condition(java) for java in _java_causes(error))
    known = [condition for condition in names if condition]
    return known or [*filter(None, [_said(error)]), *_CONDITION.findall(str(error))]


def violated(error: BaseException) -> tuple[str, str] | None:
    """Which constraint of a Delta table a row violates: ("column", its name) for NOT NULL, or ("check", its name)."""
    for java in _java_causes(error):
        if (of := _CONSTRAINTS.get(_condition(java) or "")) is not None:
            kind, parameter = of
            return kind, str(java.getMessageParameters().get(parameter))
    if (of := _CONSTRAINTS.get(_said(error) or "")) is not None:
        kind, parameter = of
        return kind, str(error.getMessageParameters().get(parameter))  # type: ignore[attr-defined]  # PySpark's
    return None


def _said(error: BaseException) -> str | None:
    """The condition that an exception of PySpark's says itself, None for one that says none."""
    from pyspark.errors import PySparkException

    return error.getCondition() if isinstance(error, PySparkException) else None


def as_cdc_error(error: BaseException, *, hint: str = "") -> CdcError:
    """The error of ours in `error`, or one with the first line of Spark's text. The hint is for the latter."""
    if isinstance(error, CdcError):
        return error
    ended = codes.SPARK_FAILED.error("Spark's JVM has ended", hint=hint)
    if jvm_has_ended(within=DYING_SECONDS if _is_cut_off(error) else 0.0):
        return ended
    try:
        return _of_spark(error, hint)
    except Exception:  # the JVM cannot be asked what happened
        if not jvm_has_ended(within=DYING_SECONDS):
            raise
        return ended


def _of_spark(error: BaseException, hint: str) -> CdcError:
    """What `as_cdc_error` gives, as the JVM says."""
    if isinstance(error, OSError) and (why := refused_by_disk(error)):  # of Python's own writes; Java's have no number
        return codes.DISK_REFUSES.error(f"cannot write to {error.filename or 'a file'}: {why}")
    text = str(error)
    if (ours := raised_in_sql(error) or decoded(text)) is not None:
        return ours
    code = _code_of(error, text)
    own = code in _WITH_HINTS  # these know better what to do
    return code.error(f"Spark failed: {first_line(error)}", hint="" if own else hint)


def _code_of(error: BaseException, text: str) -> Code[CdcError]:
    """That of an error of Spark's, with its text."""
    if _LATE in text:
        return codes.PYTHON_WORKER_LATE
    if _planner_ended(error):
        return codes.PLANNER_ENDED
    if any(condition.startswith("KAFKA_DATA_LOSS") for condition in conditions(error)):
        return codes.TOPIC_RECORDS_LOST
    if any(condition.startswith(_PLANNED_BY_ANOTHER) for condition in conditions(error)):
        return codes.LEASE_LOST
    if _no_broker(error):
        return codes.KAFKA_UNAVAILABLE
    if of_store := _of_object_store(error):
        return of_store
    if any(condition.startswith("DELTA_") for condition in conditions(error)):
        return codes.DELTA_FAILED
    return codes.SPARK_FAILED


def jvm_has_ended(*, within: float = 0.0) -> bool:
    """Whether this process had a JVM of Spark's, and it is gone: the system ends one that takes too much memory.

    That is waited for `within` so many seconds: the connections of one that is killed end before it has.
    """
    context = sys.modules.get("pyspark.core.context")
    gateway = None if context is None else context.SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _is_cut_off(error: BaseException) -> bool:
    """Whether the connection to the JVM broke, as it does a moment before a JVM that is killed has ended."""
    try:
        from py4j.protocol import Py4JNetworkError
    except ImportError:  # a client of Spark Connect has none
        return False
    return isinstance(error, Py4JNetworkError | ConnectionError)


def _planner_ended(error: BaseException) -> bool:
    """Whether the process that plans a stream ended while Spark waited for its answer, or asked it something."""
    broken = (java for java in _java_causes(error) if java.getClass().getName() in _ENDED)
    return any(frame.getClassName() == _PLANNER for java in broken for frame in java.getStackTrace())


def _no_broker(error: BaseException) -> bool:
    """Whether a client of Kafka in Spark had no answer of the brokers."""
    kafka = "org.apache.kafka.common.errors."
    return any(java.getClass().getName() in {kafka + name for name in _NO_BROKER} for java in _java_causes(error))


def _of_object_store(error: BaseException) -> Code[CdcError] | None:
    """What the client of an object store failed for, if it was that which failed."""
    causes = list(_java_causes(error))
    names = [java.getClass().getName() for java in causes]
    if not any(name.startswith(_OF_STORE) for name in names):
        return None
    refused = any(name.rpartition(".")[2] in _REFUSALS for name in names) or any(
        java.statusCode() in _FORBIDDEN for java in causes if _is_instance(java, _ANSWER)
    )
    return codes.OBJECT_STORE_REFUSED if refused else codes.OBJECT_STORE_UNAVAILABLE


def first_line(error: BaseException) -> str:
    """The first line of Spark's text, and that of the innermost cause where it is not in it."""
    first = _first_of(str(error)) or type(error).__name__
    *_, innermost = [None, *_java_causes(error)]
    cause = "" if innermost is None else _first_of(str(innermost.getMessage() or innermost.getClass().getName()))
    return first[:500] if cause in first else f"{first[:300]}, for: {cause[:300]}"


def _first_of(text: str) -> str:
    """Its first line that says what happened, "" if there is none."""
    lines = (_JAVA.sub("", line.strip().removeprefix(": ")) for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith(_CALLED)), "")


def raised_in_sql(error: BaseException) -> CdcError | None:
    """The error that SQL's raise_error made of `encoded` text; not one of a plan that Spark prints beside it."""
    for java in _java_causes(error):
        if _condition(java) == "USER_RAISED_EXCEPTION":
            return decoded(str(java.getMessageParameters().get("errorMessage")))
    return decoded(str(error)) if _said(error) == "USER_RAISED_EXCEPTION" else None


@contextmanager
def crossing_batch() -> Iterator[None]:
    """Around a foreachBatch: every error leaves it as data, those of Spark by their conditions, which text has not."""
    with crossing():
        try:
            yield
        except CdcError:
            raise
        except Exception as error:
            raise as_cdc_error(error) from error


def _java_causes(error: BaseException) -> Iterator[Any]:
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)  # PySpark's; py4j's
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield java
        java = java.getCause()


def _is_instance(java: Any, name: str) -> bool:
    from py4j.java_gateway import is_instance_of
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return gateway is not None and bool(is_instance_of(gateway, java, name))


def _condition(java: Any) -> str | None:
    if not _is_instance(java, "org.apache.spark.SparkThrowable"):
        return None
    return str(java.getErrorClass() or "") or None  # getCondition is Spark 4's name for it, and this calls it
