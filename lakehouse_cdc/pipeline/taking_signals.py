"""What signals do to the streams of a run: they end, to rest, to begin with other tables, or for good."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.pipeline.reread_requests import RereadRequests

if TYPE_CHECKING:
    from lakehouse_cdc.pipeline.signal_table import SignalTable

OTHER_RUN = "let the other run end, or end it (Ctrl-C)"


class TakesSignals(RereadRequests):
    """A pipeline whose run looks for signals."""

    _signal_table: SignalTable | None = None
    _looked_after = -1  # batches
    _looked_at = float("-inf")

    def _answer_signals(self) -> None:
        """Answer those of `<bronze>.signals`, where that is wanted, and time to look."""
        if not self.config.target.signals:
            return
        from lakehouse_cdc.pipeline.requests import answer
        from lakehouse_cdc.pipeline.signal_table import SignalTable

        try:
            with self.writing(OTHER_RUN):
                ask = partial(answer, self)
                self._signal_table = self._signal_table or SignalTable(self.spark, self.layout, self.reader, ask)
                self._signal_table.tick()
        except DefiniteError as error:
            if error.code is not codes.TABLES_LOCKED:
                raise
            # while it is paused, `maintain` may work at it; of another run, the streams' start says so

    def _halted_by_signal(self, batches: int) -> bool:
        """Whether streams, of which bronze's has had so many batches, are to end now."""
        self._answer_signals()
        if time.monotonic() - self._looked_at < self.signals.seconds_between_looks:
            return False
        self._looked_at = time.monotonic()
        if self.signals.stopping and self._looked_after != batches:
            self._looked_after = batches
            return self._all_is_read
        return self.signals.paused or not self._signals_taken

    @property
    def _all_is_read(self) -> bool:
        """Whether no table is being read, or is to be, as far as batches are planned."""
        if self.config.source.kafka is not None:
            return True
        offset = self._offset()
        return offset is not None and not offset.reading and not self.signals.wanted(offset)
