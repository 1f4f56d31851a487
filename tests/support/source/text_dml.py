"""Which tables are read again."""

from __future__ import annotations

from lakehouse_cdc.model.changelog import Op
from tests.support.source.driver import Driver
from tests.support.source.stage import Stage


def away_of(stage: Stage) -> str:
    return f"{stage.database}_away"


def read_again(driver: Driver, since: int = 0) -> set[str]:
    return {change.table.partition(".")[2] for change in driver.log[since:] if change.op is Op.END}
