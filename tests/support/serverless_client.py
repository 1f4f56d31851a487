"""`lakehouse-cdc` as a client of Spark Connect that may do no more than a session on Databricks serverless may.

What serverless refuses is refused here, too: settings but those of a short list, and frames that are kept. And a
process may end at one of its commits: `DIE_AT` is the number of the failpoint (see `lake.failpoints`) at which it kills
itself.

Source: "Serverless compute limitations" and "Configure Spark properties for serverless notebooks and jobs", Databricks'
documentation.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from pyspark.errors.exceptions.connect import AnalysisException
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.dataframe import DataFrame

from lakehouse_cdc.cli.main import main
from lakehouse_cdc.lake.failpoints import Door, Moment, install

ALLOWED = {
    "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.sql.ansi.enabled",
    "spark.sql.files.maxPartitionBytes", "spark.sql.legacy.timeParserPolicy", "spark.databricks.execution.timeout",
}  # fmt: skip
_set = RuntimeConf.set


def _of_the_list(self: RuntimeConf, key: str, value: Any) -> None:
    if key not in ALLOWED:
        raise AnalysisException(f"Configuration {key} is not available.", errorClass="CONFIG_NOT_AVAILABLE")
    _set(self, key, value)


def _unset(self: RuntimeConf, key: str) -> None:
    raise AnalysisException(f"Configuration {key} is not available.", errorClass="CONFIG_NOT_AVAILABLE")


def _persist(self: DataFrame, *_: Any, **__: Any) -> DataFrame:
    text = "PERSIST TABLE is not supported on serverless compute."
    raise AnalysisException(text, errorClass="NOT_SUPPORTED_WITH_SERVERLESS")


def _dying_at(number: int) -> None:
    numbers = count(1)

    def hook(door: Door, moment: Moment, name: str) -> None:
        if next(numbers) == number:
            print(f"dies {moment.value} {door.value}: {name}", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    install(hook)


if __name__ == "__main__":
    RuntimeConf.set, RuntimeConf.unset = _of_the_list, _unset  # type: ignore[method-assign]
    DataFrame.persist = DataFrame.cache = _persist  # type: ignore[method-assign]
    if number := os.environ.get("DIE_AT"):
        _dying_at(int(number))
    main()
