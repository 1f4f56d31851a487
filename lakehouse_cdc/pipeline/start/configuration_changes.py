"""What a changed configuration does to the tables that are captured, said before it is done.

It is what the planner will do, by the same function (`source.planning.reconfigured.changes`), at the last position that
bronze has. What the log holds after that may still give columns other names.
"""

from __future__ import annotations

from lakehouse_cdc.lake.checkpoint import Checkpoint
from lakehouse_cdc.pipeline.context import Folders
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.planning.reconfigured import changes, under
from lakehouse_cdc.source.state.offset_codec import restored
from lakehouse_cdc.source.state.planned_configuration import DIGEST
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.state.table_settings import described, hides

NOT_REDACTED = (
    "what bronze and silver's earlier versions have of it in clear stays until lakehouse-cdc redact -c pipeline.yml"
)


def configuration_changes(folders: Folders, options: SourceOptions) -> list[str]:
    """A sentence for each table, captured or quarantined, that is configured otherwise than in the last batch.

    Nothing before the first batch. Raises DefiniteError for what cannot be.
    """
    place, store = Checkpoint(folders.bronze), SchemaStore(folders.schemas)
    batch = place.last_commit()
    stored = {} if batch is None else place.offset(batch)
    if (offset := restored(stored, store)) is None:
        return []
    start = under(offset, options, store, stored.get(DIGEST)) or offset
    sentences = {name: _sentence(name, change) for name, change in changes(start, options, store).items()}
    selection = Selection(options.tables)
    sentences |= {name: _left(name) for name in offset.quarantined if not selection.matches(name)}
    later = [name for start in offset.starts for name in start.tables]
    sentences |= {name: _not_begun(name) for name in later if not selection.matches(name)}
    return [sentences[name] for name in sorted(sentences)]


def _left(name: str) -> str:
    return f"{name} is not in source.tables any more: what was captured stays as it is"


def _not_begun(name: str) -> str:
    return f"{name} is not in source.tables any more: it does not begin"


def _sentence(name: str, change: SchemaChange) -> str:
    if change.after is None:
        return _left(name)
    sentence = f"{name}: {described(change)}; {'nothing' if change.kept else 'the table'} is read again"
    return f"{sentence}; {NOT_REDACTED}" if hides(change) else sentence
