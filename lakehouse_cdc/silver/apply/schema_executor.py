"""Take one silver table, and its tombstones, through one change of the schema.

What is to be done is decided in `evolution`; here each step is carried out by one commit, which says which batch it
belongs to. Nothing that was resolved before a step is used after it: Delta refuses a table held over an ALTER.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse_cdc.errors import codes
from lakehouse_cdc.lake.noting import noting
from lakehouse_cdc.lake.table_state import Columns
from lakehouse_cdc.lake.tables import (
    alter,
    comment_of,
    commented,
    held_columns,
    marked,
    read,
    require_owner,
    set_properties,
    write,
)
from lakehouse_cdc.model.commit_note import CommitNote
from lakehouse_cdc.model.table_layout import Layout, Table, literal, quoted
from lakehouse_cdc.schema.comments import NONE
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import require
from lakehouse_cdc.silver.batch.contents import SchemaBoundary
from lakehouse_cdc.silver.definition.casts import carried_over, widens
from lakehouse_cdc.silver.definition.column_mapping import Frozen
from lakehouse_cdc.silver.definition.engine import why_spark
from lakehouse_cdc.silver.definition.form import Form
from lakehouse_cdc.silver.definition.policy import Policy, clusterable
from lakehouse_cdc.silver.definition.transform import Transform
from lakehouse_cdc.silver.evolution.plan import evolution
from lakehouse_cdc.silver.evolution.steps import (
    AddColumn,
    Cluster,
    Compute,
    Count,
    DropColumn,
    Enter,
    Fill,
    Finish,
    Forget,
    Phase,
    Recast,
    RenameColumn,
    Retake,
    Rewrite,
    Stay,
    Step,
    TakeOver,
    Unite,
    Widen,
)
from lakehouse_cdc.silver.forms.writers.multiset import count_again
from lakehouse_cdc.silver.tables import tombstones
from lakehouse_cdc.silver.tables.properties import (
    BUILDING,
    CHANGING,
    CLUSTERED,
    FROZEN,
    KEPT,
    LEFT,
    QUARANTINED_BECAUSE,
    SCHEMA_ID,
    SCHEMA_SEQ,
    FrozenShape,
    SilverQuarantine,
)
from lakehouse_cdc.silver.tables.table_definition import (
    STATISTICS,
    WIDENING,
    columns_of_source,
    hand_to_spark,
    is_bare,
    statistics,
)


def evolve(
    session: SparkSession,
    layout: Layout,
    change: SchemaBoundary,
    phase: Phase,
    note: CommitNote,
    done: CommitNote,
    policy: Policy,
    added: Columns = (),
) -> frozenset[str]:
    """Bring the table to the schema after `change`; the columns that it keeps beside, as `policy` says.

    `phase` is how far it has come, in an attempt that failed. `done` is the note of the last commit. `added` are the
    columns of the transform, after the change. Raises TableError for one whose type cannot become what it would be.
    """
    table, transform = layout.silver_table(change.new.name), policy.transform
    if not policy.comments.fit(change.new):
        policy = replace(policy, comments=NONE)
    change = change.renamed(transform)
    present = columns_of_source(session, table, transform)
    steps = evolution(change.old, change.new, change.origin, present, phase, change.filled, policy)
    alters = len(steps) > 1 or phase is not Phase.BEFORE
    if alters and transform.computed:
        steps.insert(-1, _compute(session, table, transform, added))
    if alters and policy.form.counts_copies:
        steps.insert(-1, Count())
    if alters and CLUSTERED in require_owner(session, table, layout.pipeline):
        steps = [Cluster(()), *steps[:-1], Cluster(policy.cluster_by), steps[-1]]
    if _needs_spark(change, steps, policy, table):
        with noting(session, note):
            if policy.form.has_tombstones:
                hand_to_spark(session, layout.tombstones(change.new.name))
            hand_to_spark(session, table)
    for step in steps:
        perform(session, layout, change, step, done if isinstance(step, Finish) else note, policy)
    return _beside(session, table, change, transform)


def finished(change: SchemaBoundary, kept: Iterable[str], bounded: str) -> dict[str, str]:
    """What a table says of itself that has gone through the change."""
    return {
        SCHEMA_ID: change.schema_id,
        SCHEMA_SEQ: str(change.seq),
        KEPT: json.dumps(sorted(kept), ensure_ascii=False),
        STATISTICS: bounded,
    }


def _needs_spark(change: SchemaBoundary, steps: Sequence[Step], policy: Policy, table: Table) -> bool:
    """Whether a table that deltalake keeps cannot take these steps, or could not be kept by it afterwards.

    Spark takes the steps either way, and a table that has the features already stays as it is.
    """
    needs_feature = any(isinstance(step, RenameColumn | DropColumn | Widen) for step in steps)
    return needs_feature or bool(why_spark(replace(policy, engine="auto"), table, change.new))


def _compute(session: SparkSession, table: Table, transform: Transform, added: Columns) -> Compute:
    held = dict(held_columns(session, table))
    wider = [(name, kind) for name, kind in added if name in transform.computed and held[name] != kind]
    for name, kind in wider:
        if not widens(held[name], kind):
            raise codes.COMPUTED_TYPE_CHANGED.error(
                f"computed column {name} is {held[name]}, and would be {kind} from here on",
                where=str(table),
                hint="cast it in its expression; the next run builds the silver table again",
            )
    return Compute(tuple(wider), tuple(transform.computed.items()))


def stay(
    session: SparkSession,
    layout: Layout,
    change: SchemaBoundary,
    frozen: Frozen,
    note: CommitNote,
    done: CommitNote,
    policy: Policy,
) -> None:
    """Leave the table in its shape: it follows the source's columns by what they are called after `change`.

    Done again, before anything was applied after it, it makes the same. `done` is the note of the last commit.
    """
    shape = frozen.shape
    kinds = {c.name: require(c, shape.schema.name).silver for c in shape.schema.captured}
    steps: list[Step] = [Stay(FrozenShape.of_shape(shape).text(change.seq))]
    if frozen.retaken:
        steps.insert(0, Retake(tuple((name, kinds[name], text) for name, text in frozen.retaken.items())))
    if frozen.retaken and policy.transform.computed:
        steps.insert(1, Compute((), tuple(policy.transform.computed.items())))
    if frozen.retaken and policy.form.counts_copies:
        steps.insert(-1, Count())
    for step in steps:
        perform(session, layout, change, step, done if isinstance(step, Stay) else note, policy)


def finish_building(session: SparkSession, layout: Layout, name: str, note: CommitNote) -> None:
    """Say that a table which was built from the whole of bronze holds all of it."""
    with noting(session, note):
        set_properties(session, layout.silver_table(name), {BUILDING: "false"})


def mark_left(session: SparkSession, layout: Layout, name: str, seq: int, note: CommitNote) -> None:
    """Say that the table was left off at `seq`, or, where that is 0, that it is followed again."""
    with noting(session, note):
        set_properties(session, layout.silver_table(name), {LEFT: str(seq)})


def set_aside(
    session: SparkSession, layout: Layout, name: str, quarantine: SilverQuarantine | None, note: CommitNote
) -> None:
    """Say that the table is quarantined, and why; or, with None, that it is not any more."""
    with noting(session, note):
        set_properties(
            session, layout.silver_table(name), {QUARANTINED_BECAUSE: "" if quarantine is None else quarantine.text()}
        )


def perform(
    session: SparkSession, layout: Layout, change: SchemaBoundary, step: Step, note: CommitNote, policy: Policy
) -> None:
    """One step; one commit. `change` is as the table's columns are called."""
    table, new, form = layout.silver_table(change.new.name), change.new, policy.form
    own, current = table.own, form.is_current(table.own)
    with noting(session, note):
        if isinstance(step, Enter):
            # Delta does not drop a column while others with odd names have statistics
            set_properties(
                session,
                table,
                {
                    CHANGING: f"{change.seq}:{int(step.phase)}",
                    STATISTICS: statistics(new, (), form=form, own=own, bare=is_bare(session, table)),
                },
            )
        elif isinstance(step, RenameColumn | DropColumn | AddColumn):
            _alter(session, table, _of_one_column(step, policy))
        elif isinstance(step, Fill | Retake | TakeOver):
            _fill(session, table, step, current)
        elif isinstance(step, Cluster):
            _cluster(session, table, new, step, form)
        elif isinstance(step, Compute):
            _recompute(session, layout, table, step, current)
        elif isinstance(step, Widen):
            _widen(session, layout, table, step)
        elif isinstance(step, Rewrite):
            indexed = statistics(new, step.key, form=form, own=own, bare=is_bare(session, table))
            set_properties(session, table, {STATISTICS: indexed})
            _rewrite(session, table, step, note)
        elif isinstance(step, Forget):
            tombstones.forget(session, layout.tombstones(new.name), new, change.seq, note)
        elif isinstance(step, Unite | Count):
            _resolve_equal_rows(session, table, change, step, form, note)
        else:
            assert isinstance(step, Stay | Finish)
            _finish(session, table, change, step, policy)


def _resolve_equal_rows(
    session: SparkSession, table: Table, change: SchemaBoundary, step: Unite | Count, form: Form, note: CommitNote
) -> None:
    if isinstance(step, Unite):
        form.resolve_equal_keys(session, table, change)
    else:
        count_again(session, table, change.new, form, note)


def _of_one_column(step: RenameColumn | DropColumn | AddColumn, policy: Policy) -> str:
    name = quoted(step.name)
    if isinstance(step, RenameColumn):
        return f"RENAME COLUMN {name} TO {quoted(step.to)}"
    if isinstance(step, DropColumn):
        return f"DROP COLUMN {name}"
    comment = commented(policy.column_comments.get(step.name, ""))
    place = "FIRST" if step.after is None else f"AFTER {quoted(step.after)}"
    return f"ADD COLUMNS ({name} {step.type}{comment} {place})"


def _alter(session: SparkSession, table: Table, what: str) -> None:
    alter(session, table, f"ALTER TABLE {table.sql} {what}")


def _fill(session: SparkSession, table: Table, step: Fill | Retake | TakeOver, where: str) -> None:
    if isinstance(step, TakeOver):
        values = [(quoted(name), _carried_over(other)) for name, other in step.columns]
    else:
        values = [(quoted(name), _constant(text, kind)) for name, kind, text in step.columns]
    if not isinstance(step, Fill):
        given = ", ".join(f"{name} = {value}" for name, value in values)
        alter(session, table, f"UPDATE {table.sql} SET {given} WHERE {where} AND {table.rows()}")
        return
    filled = ", ".join(f"{name} = coalesce({name}, {value})" for name, value in values)
    lacking = " OR ".join(f"{name} IS NULL" for name, _ in values)
    alter(session, table, f"UPDATE {table.sql} SET {filled} WHERE ({lacking}) AND {where} AND {table.rows()}")


def _constant(text: str | None, kind: str) -> str:
    return f"CAST({'NULL' if text is None else literal(text)} AS {kind})"


def _widen(session: SparkSession, layout: Layout, table: Table, step: Widen) -> None:
    """Tables of earlier releases were made without the feature."""
    if require_owner(session, table, layout.pipeline).get(WIDENING) != "true":
        set_properties(session, table, {WIDENING: "true"})
    _alter(session, table, f"ALTER COLUMN {quoted(step.name)} TYPE {step.type}")


def _cluster(session: SparkSession, table: Table, schema: TableSchema, step: Cluster, form: Form) -> None:
    names = clusterable(held_columns(session, table), step.names)
    if names:
        indexed = statistics(schema, schema.key, form=form, own=table.own, clustered=names)
        set_properties(session, table, {STATISTICS: indexed})
    _alter(session, table, f"CLUSTER BY ({', '.join(map(quoted, names))})" if names else "CLUSTER BY NONE")


def _recompute(session: SparkSession, layout: Layout, table: Table, step: Compute, where: str) -> None:
    for name, kind in step.wider:
        _widen(session, layout, table, Widen(name, kind))
    values = ", ".join(f"{quoted(name)} = ({text})" for name, text in step.expressions)
    stale = " OR ".join(f"NOT ({quoted(name)} <=> ({text}))" for name, text in step.expressions)
    alter(session, table, f"UPDATE {table.sql} SET {values} WHERE ({stale}) AND {where} AND {table.rows()}")


def _rewrite(session: SparkSession, table: Table, step: Rewrite, note: CommitNote) -> None:
    recast = {one.name: one for one in step.columns}
    rows = read(session, table)
    values = [
        F.expr(_carried_over(recast[field.name])).alias(field.name, metadata=marked(comment_of(field)))
        if field.name in recast
        else F.col(quoted(field.name))
        for field in rows.schema.fields
    ]
    options: dict[str, str | int] = {"overwriteSchema": "true", "userMetadata": note.text()}
    write(rows.select(*values), table, options, mode="overwrite")


def _carried_over(column: Recast) -> str:
    """The column's value in the other type where the way back gives the same again, else NULL."""
    return carried_over(quoted(column.name), column.held, column.type, f"CAST(NULL AS {column.type})")


def _finish(session: SparkSession, table: Table, change: SchemaBoundary, step: Stay | Finish, policy: Policy) -> None:
    if isinstance(step, Stay):
        properties = {SCHEMA_ID: change.schema_id, SCHEMA_SEQ: str(change.seq), FROZEN: step.frozen}
        set_properties(session, table, properties)
        return
    new, kept = change.new, _beside(session, table, change, policy.transform)
    clustered = clusterable(held_columns(session, table), policy.cluster_by)
    bare = is_bare(session, table)
    bounded = statistics(new, new.key, form=policy.form, own=table.own, clustered=clustered, bare=bare)
    set_properties(session, table, finished(change, kept, bounded))


def _beside(session: SparkSession, table: Table, change: SchemaBoundary, transform: Transform) -> frozenset[str]:
    return frozenset(columns_of_source(session, table, transform).keys() - {c.name for c in change.new.captured})
