"""Raises the floor of an offset to its own position, so that a read as of it needs no image from before the position.

The floor F of an offset is a position that was settled (see `source.settling.settled_position`) when the offset was
planned, W only some time later. By the time of a verification W has settled, as a rule, and a SELECT sees all up to it:
then the binlog is needed from W on alone, and every row that was not written after W is the server's own text. Where
that is not proven in a short while the old floor serves; that costs rows that are compared by their image, never
correctness.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.source.identity import connect_to
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.settling.settled_position import Floor

_PATIENCE = 2.0  # seconds beyond the margin of a proof by age


def settled(offset: Offset, options: SourceOptions) -> Offset:
    """The offset with its floor at its position, or as it is. Raises DefiniteError on another server."""
    if not offset.floor < offset.position:
        return offset
    with connect_to(options, offset.identity) as session:
        floor = Floor(session, options.settle, options.settle_seconds, settled=offset.floor)
        if offset.prepared and floor.proof != "gtid":
            return offset  # an XA COMMIT is seen by no other proof, and which of them are recent is not known here
        floor.saw(offset.position, offset.gtids())
        patience = _PATIENCE + (floor.margin if floor.proof == "age" else 0)
        began = time.monotonic()
        while (now := floor.settled()) is None or now < offset.position:
            if time.monotonic() - began > patience:
                return offset
            time.sleep(0.02)
    return replace(offset, floor=offset.position)
