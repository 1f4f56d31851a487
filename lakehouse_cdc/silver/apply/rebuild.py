"""Silver tables that are configured otherwise than they were made: built again from bronze beside, and swapped.

Purpose: `metadata_prefix`, `scd`, `deletes`, `append`, `rename`, `computed`, `filter` and `metadata`, and
`schema_changes: freeze` taken back, can change in a pipeline with tables. Bronze has every change, so nothing is read
from the source. Nor is it for a table that silver refused before it was made, once it can be made.

Invariant: a reader sees the old table or the new one, each as a whole, and the new one is what it would be if it had
been made with the settings of now.

Why it holds: the new table is filled by the one writer of silver tables (`table_applier`), in a place of its own, from
the whole of bronze. One commit to the old table then replaces rows, columns, properties and note. Its tombstones are
replaced before. A crash in between leaves the old table with the tombstones of the new one; so the old one says before
that it is about to be replaced, and is replaced, whatever is configured by then, before another batch is applied. A
crash at any other point leaves a table that nobody reads, and that the next attempt deletes first.
Batches that the new table holds already are applied to it as any repeated batch is: they change nothing.

Where values of bronze are hidden later (see `bronze.redaction`), the tables that were made of them say that before, and
are built again, too. Of what bronze has added before that, by version, they take nothing any more. Their commits from
before have least and greatest values of keys, so Delta's log forgets them; the new table says that it is to be built
again until that is done.

A table that cannot be built is quarantined as it is (see `applier`), and tried again by the next run. One that is not
there has no place to say so: the run does. One that is quarantined may have been so for what is configured otherwise
now, so it is built again, too. A part of a table that several go into is not rebuilt, but one that is quarantined, or
was never made, gets from bronze what it lacks.

Guards: tests/silver/test_rebuild.py, tests/pipeline/test_silver_settings.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from lakehouse_cdc.errors import ConfigError, DefiniteError
from lakehouse_cdc.lake.commits import newest_first, newest_version
from lakehouse_cdc.lake.noting import noting
from lakehouse_cdc.lake.old_versions import forget_versions
from lakehouse_cdc.lake.readers.spark import SparkReader
from lakehouse_cdc.lake.sessions import session_with
from lakehouse_cdc.lake.tables import drop, exists, replace_by, set_properties, unset_properties
from lakehouse_cdc.lake.versions import Versions
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, Table
from lakehouse_cdc.model.table_name import pattern_of
from lakehouse_cdc.model.way_out import silver_reason
from lakehouse_cdc.silver.apply import schema_executor
from lakehouse_cdc.silver.apply.refusals import refusal
from lakehouse_cdc.silver.apply.table_applier import TableApplier
from lakehouse_cdc.silver.batch.batch_from_files import parts_of
from lakehouse_cdc.silver.definition.engine import SPARK
from lakehouse_cdc.silver.definition.policy import Policy
from lakehouse_cdc.silver.tables.known_schemas import past_schemas, schemas_in_force, schemas_of
from lakehouse_cdc.silver.tables.names import SilverNames, known_source_tables, own_table
from lakehouse_cdc.silver.tables.properties import (
    REBUILDING,
    REDACTED,
    Held,
    SilverQuarantine,
    held_by,
    own_properties,
)
from lakehouse_cdc.silver.tables.table_definition import hand_to_spark, is_bare
from lakehouse_cdc.sinks.schema_cache import Schemas
from lakehouse_cdc.sinks.stream import source_notes

_QUERY = "rebuild"  # in the place of a streaming query, in the notes of such a table's commits


@dataclass(frozen=True)
class Rebuild:
    """A silver table to be built again: that of which source table, and what differs.

    `first`: it is not there yet, since it could not be built until now. `part`: it is one of a table that several go
    into, and gets what it lacks.
    """

    source_table: str
    why: str
    first: bool = False
    part: bool = False

    @property
    def sentence(self) -> str:
        """For a person."""
        if self.part:
            return f"{self.source_table}: its part of a silver table gets from bronze what it lacks, for {self.why}"
        again = "" if self.first else " again"
        return f"{self.source_table}: its silver table is built{again} from bronze, for {self.why}"


def rebuilds(
    spark: SparkSession, layout: Layout, policy: Callable[[str], Policy], applied: int | None = None
) -> list[Rebuild]:
    """The silver tables that are configured otherwise than they are, by name of their source table.

    Those that are not there, for they were refused, are among them where they can be built now; silver has applied
    bronze up to the seq `applied` (None: nothing), and makes what came later by itself. Raises ConfigError for a table
    whose settings contradict each other, DefiniteError for a table of somebody else's.
    """
    if not exists(spark, layout.schemas):
        return []
    wanted, missing = [], set[str]()
    for name in known_source_tables(SparkReader(spark), layout):
        table, of_several = own_table(SparkReader(spark), layout, name), layout.silver_table(name).part is not None
        held = None if table is None else held_by(SparkReader(spark), layout, name)
        if table is None or held is None:
            missing.add(name)
        elif of_several:
            wanted += [Rebuild(name, _set_aside(held.quarantine), part=True)] if held.quarantine is not None else []
        elif why := _difference(layout, table, held, _with_key(spark, layout, name, held, policy(name))):
            wanted.append(Rebuild(name, why))
    if applied is not None and missing:
        able = _able(spark, layout, policy, missing, applied)
        why = "its rows are in bronze alone"
        wanted += [Rebuild(name, why, first=True, part=layout.silver_table(name).part is not None) for name in able]
    return sorted(wanted, key=lambda one: one.source_table)


def _able(
    spark: SparkSession, layout: Layout, policy: Callable[[str], Policy], missing: Collection[str], applied: int
) -> list[str]:
    """Those of the source tables without a silver table that silver has passed by, and can have a table of now."""
    met = schemas_in_force(SparkReader(spark), layout)
    names = SilverNames(layout, met, policy)

    def is_able(name: str) -> bool:
        followed = met[name][-1].schema is not None and met[name][0].seq <= applied
        return followed and names.without(SparkReader(spark), past_schemas(met[name])) is None

    able = [name for name in met if name in missing and is_able(name)]
    sharing = layout.without_name(able)
    return [name for name in able if name not in sharing]


def _with_key(spark: SparkSession, layout: Layout, name: str, held: Held, policy: Policy) -> Policy:
    """The policy of a table as the schema of now has it, which is looked for where the table is not of that form."""
    if held.form is policy.form and held.quarantine is None:
        return policy
    past = schemas_of(SparkReader(spark), layout, name)
    return policy.for_schema(past[-1]) if past else policy


def _difference(layout: Layout, table: Table, held: Held, policy: Policy) -> str:
    if table.own != layout.own:
        return f"its own columns begin with {table.own.prefix}, and are to begin with {layout.own.prefix}"
    if held.form is not policy.form:
        return f"it is {held.form.title}, and is to be {policy.form.title}"
    if held.transform != policy.transform:
        return "rename, computed, filter or metadata are others now"
    if held.frozen is not None and not policy.freezes:
        return "it was frozen, and is to follow the columns of its source"
    if held.quarantine is not None:
        return _set_aside(held.quarantine)
    if held.redacted:
        return "values that bronze held have been hidden"
    return "an attempt that was interrupted" if held.rebuilding else ""


def _set_aside(quarantine: SilverQuarantine) -> str:
    return f"it was set aside ({quarantine.reason})"


def mark_redacted(spark: SparkSession, layout: Layout, name: str) -> None:
    """Have the silver table, which is there, built again: by `rebuild`, or else by the next run.

    A part of a table that several go into says so, too, though it is not built again.
    """
    set_properties(spark, layout.silver_table(name), {REBUILDING: REDACTED})


def rebuild(
    spark: SparkSession, layout: Layout, name: str, policy: Policy, applied: int | None, *, keep_days: float = 7.0
) -> DefiniteError | None:
    """Build one of them, and swap it for what is there, or give a part what it lacks; why it is quarantined, if it is.

    Silver has applied bronze up to the version `applied` (None: nothing), and must not be writing. Raises DefiniteError
    or TransientError.
    """
    session, held = session_with(spark, {}), held_by(SparkReader(spark), layout, name)
    of_last = 0 if held is None or held.last is None else held.last.bronze_version or 0
    version = max(of_last, newest_version(session, layout.changes) if applied is None else applied)
    source = source_notes(session, layout, Versions(version, version))[0]
    redacted = True if held is not None and held.redacted else None
    note = CommitNote(layout.pipeline, _QUERY, version, source.source_point, version, redacted=redacted)
    try:
        if layout.silver_table(name).part is None:
            _build(session, layout, name, policy, version, note, keep_days)
        else:
            _complete(session, layout, name, policy, version, note, keep_days)
    except Exception as error:
        refused = error if isinstance(error, ConfigError) else refusal(name, layout.silver_table(name), error)
        if refused is None:
            raise
        if held is not None:
            after = None if held.building else applied
            if held.quarantine is not None:
                after = held.quarantine.after
            if held.redacted:
                after = None
            reason = SilverQuarantine(silver_reason(refused), after)
            schema_executor.set_aside(session, layout, name, reason, note)
        return refused
    finally:
        _remove(session, layout, name)
    return None


def _beside(layout: Layout, name: str) -> Layout:
    """The same tables, but for the silver table of `name`, which is built there."""
    table = layout.silver_table(name)
    return replace(layout, silver_names=((pattern_of(name), f"{table.name}__rebuilt"),), into=())


def _build(
    session: SparkSession, layout: Layout, name: str, policy: Policy, version: int, note: CommitNote, keep_days: float
) -> None:
    _remove(session, layout, name)
    for there in (layout.silver_table(name), layout.tombstones(name)):
        if exists(session, there) and not is_bare(session, there):
            policy = replace(policy, engine="spark")  # what it has of Delta's features stays, so deltalake refuses it
    beside, schemas, versions = _beside(layout, name), Schemas(layout), Versions(None, version)
    part = parts_of(session, layout, versions, name)[name]
    schemas.learn(session, part.schema_ids, lambda: versions.rows(session, layout.changes))
    TableApplier(beside, schemas, name, keep_days=keep_days, policy=policy).apply(session, part, versions, note)
    made = held_by(SparkReader(session), beside, name)
    assert made is not None, name
    if note.redacted:
        set_properties(session, beside.silver_table(name), {REBUILDING: REDACTED})
    old, tombstones = layout.silver_table(name), layout.tombstones(name)
    if exists(session, old):
        set_properties(session, old, {REBUILDING: REDACTED if note.redacted else "true"})
    if exists(session, old) and made.engine == SPARK:
        with noting(session, note):
            for there in (tombstones, old):
                if exists(session, there):
                    hand_to_spark(session, there)
    replaced = own_properties(SparkReader(session), layout, name).transform.text() if exists(session, old) else None
    with noting(session, replace(note, through=made.through, replaced=replaced)):
        if made.form.has_tombstones:
            replace_by(session, tombstones, beside.tombstones(name))
        replace_by(session, old, beside.silver_table(name))
    if note.redacted:
        _forget_redacted(session, old, tombstones)


def _forget_redacted(session: SparkSession, old: Table, tombstones: Table) -> None:
    """Leave nothing in Delta's log of the versions from before the tables were built of redacted rows."""
    for table in (tombstones, old):
        if exists(session, table):
            first = next(c.version for c in newest_first(session, table) if c.note is not None and c.note.redacted)
            forget_versions(session, table, first)
    unset_properties(session, old, REBUILDING)


def _complete(
    session: SparkSession, layout: Layout, name: str, policy: Policy, version: int, note: CommitNote, keep_days: float
) -> None:
    """Apply to a part all of bronze up to a version that it lacks."""
    held, schemas = held_by(SparkReader(session), layout, name), Schemas(layout)
    after = held.quarantine.after if held is not None and held.quarantine is not None else None
    if after is not None and after >= version:
        return  # the batch in which it failed is to be applied again
    versions = Versions(after, version)
    part = parts_of(session, layout, versions, name).get(name)
    if part is not None:
        schemas.learn(session, part.schema_ids, lambda: versions.rows(session, layout.changes))
        TableApplier(layout, schemas, name, keep_days=keep_days, policy=policy).apply(session, part, versions, note)


def _remove(session: SparkSession, layout: Layout, name: str) -> None:
    beside = _beside(layout, name)
    for table in (beside.silver_table(name), beside.tombstones(name)):
        drop(session, table, pipeline=layout.pipeline)
