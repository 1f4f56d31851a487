"""What a table's schema is after a DDL that may have changed it.

Two things know. The statement itself, as far as its grammar is ours (`sql.ddl`): it also says which column is which,
and whether the rows are kept. And the server's catalog, which says what is there *now*: that is what there was after
the statement where no later one in the log touched columns. So the catalog's word counts where it can be had, and where
the statement is then found to have been read otherwise, or could not be read, columns are matched by their names and
the rows are read again. In a backlog, where the table was altered again since, the statement is all there is.

What the catalog says belongs to a place in the log: DDL that was under way while it was asked has ended, and is in the
log, when a SELECT on the table returns; the log is then read up to there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.ddl_effect import Effect, Kind
from lakehouse_cdc.model.offset import Offset
from lakehouse_cdc.model.position import Position
from lakehouse_cdc.model.table_state import Quarantined, TableState
from lakehouse_cdc.model.way_out import pass_by, reason
from lakehouse_cdc.mysql import server
from lakehouse_cdc.mysql.binlog.scan import LoggedStatement
from lakehouse_cdc.mysql.catalog import logs_generated
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.literals import for_statements, quoted
from lakehouse_cdc.mysql.system_versioning import greatest_end
from lakehouse_cdc.schema.change import SchemaChange
from lakehouse_cdc.schema.column_choice import require_masks
from lakehouse_cdc.schema.masks import gives_text
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.schema.types import mapped
from lakehouse_cdc.source.captured_tables import Tables, wait_for_ddl
from lakehouse_cdc.source.options import SourceOptions
from lakehouse_cdc.source.state.state_store import SchemaStore
from lakehouse_cdc.source.tail.log_tail import Tail
from lakehouse_cdc.sql.ddl.alter import Altered, altered
from lakehouse_cdc.sql.ddl.column_type import Given, charset_name
from lakehouse_cdc.sql.lexer import NotUnderstood
from lakehouse_cdc.sql.redaction import without_constants
from lakehouse_cdc.sql.statements import StatementKind

_log = logging.getLogger(__name__)


def resolved(
    session: Session,
    tables: Tables,
    store: SchemaStore,
    tail: Tail,
    start: Offset,
    statement: LoggedStatement,
    *,
    near: bool,
) -> tuple[Effect, ...]:
    """The effects of a statement after `start`, with what it made of schemas, which is stored.

    `near`: the log is known up to its end, so the catalog may be asked. A table that was replaced by one of which
    nothing is known is gone; `planning.new_tables` finds it again, as it does one that was created, if what it was born
    as cannot be determined, and one of which it is not known what a statement made: each is read again at the end of
    the log. One that cannot be captured any more is quarantined, and so is one with a mask, which may have another name
    by then, and one that is not to be read again. Raises DefiniteError where the user wants the stream to stop instead.
    """
    outcome = []
    for effect in statement.effects or ():
        if effect.kind in ("truncate", "again"):
            outcome.append(effect)
            continue
        if effect.kind == "create":
            born = _born(session, tables, tail, statement, start.tables.get(effect.table), effect.table)
            if born is not None:
                outcome.append(replace(effect, change=store.put(born)))
            elif tables.options.snapshot == "never":
                outcome += _refused_birth(session, tables, store, statement, start.tables.get(effect.table), effect)
            continue
        if tables.options.stops_at_changes(effect.table):
            what = f"{effect.table} was changed: {tables.options.shown(statement.text)}"
            raise stopped(what, effect.table, str(statement.position))
        before = store.get(start.tables[effect.table].schema)
        change: SchemaChange | DefiniteError | None = None
        reason = ""
        if effect.kind != "drop":
            change = _followed(session, tables, tail, statement, before, near=near)
            if change is None and effect.kind == "alter":
                change = not_followed(statement, tables.options, before.name)
        if isinstance(change, DefiniteError):
            reason = _reason(change, statement, before, tables.options)
            change = None
        change = change or SchemaChange.leaving(_for_bronze(statement.text, before), before, reason)
        kind: Kind = "alter" if change.after else "quarantine" if reason else "drop"
        outcome.append(Effect(kind, effect.table, store.put_change(change)))
    return tuple(outcome)


def _followed(
    session: Session, tables: Tables, tail: Tail, statement: LoggedStatement, before: TableSchema, *, near: bool
) -> SchemaChange | DefiniteError | None:
    """What the statement made of the table, None where that cannot be known; or why it is not captured any more."""
    try:
        return _change(session, tables, tail, statement, before, near=near)
    except DefiniteError as error:
        if error.where != before.name:
            raise
        return error


def _reason(error: DefiniteError, statement: LoggedStatement, before: TableSchema, options: SourceOptions) -> str:
    """Why the table is quarantined, '' if it is read again instead. Raises the error if the stream is to stop."""
    on_error = options.on_error_of(before.name)
    if on_error == "stop":
        hint = to_continue(before.name, statement.position)
        raise error.code.error(error.what, where=error.where, hint=hint) from error
    unknown = statement.unknown or error.code is codes.STATEMENT_NOT_FOLLOWED
    if not unknown or on_error != "reread" or _is_masked(before):
        return reason(error.code, error.what, error.hint, before.name)
    _log.warning("%s: the table is read again at the end of the log", error.what)
    return ""


def _is_masked(schema: TableSchema) -> bool:
    return any(column.mask for column in schema.columns)


def _change(
    session: Session, tables: Tables, tail: Tail, statement: LoggedStatement, before: TableSchema, *, near: bool
) -> SchemaChange | None:
    """What `statement` made of the table `before`, None where that cannot be known.

    Raises DefiniteError where the table cannot be captured any more.
    """
    parsed = None if statement.unknown or statement.statement.unions else _altered(statement, before, session)
    if parsed is not None and any(c.charset and c.collation is None for c in parsed.schema.key_columns):
        parsed = None  # the order of such keys is not known
    now = _now(session, tables, tail, statement, before) if near or parsed is None else None
    if now is None and (parsed is None or not parsed.key_known):
        return None
    if now is not None and parsed is not None:
        _require_labels(parsed, now)
    if parsed is not None and (now is None or _agree(parsed, now, before)):
        after = tables.configured(now or parsed.schema, before, parsed.origin)
        filled = {c.name: parsed.filled[c.name] for c in after.captured if c.name in parsed.filled and not c.mask}
        # a text, or what a mask makes of one, is not the server's
        as_text = any(c.carried or gives_text(c) for c in after.captured if c.name in parsed.filled)
        same_key = tuple(parsed.origin.get(name) for name in after.key) == before.key
        kept = parsed.kept and same_key and not as_text and _same_texts(before, after, parsed.origin)
        return SchemaChange(
            _for_bronze(statement.text, before, after), before, after, parsed.origin, kept, filled=filled
        )
    assert now is not None
    change = SchemaChange.by_names(statement.text, before, now)
    after = tables.configured(now, before, change.origin)
    require_masks(before, after, change.origin)
    return replace(change, statement=_for_bronze(statement.text, before, after), after=after)


def _for_bronze(text: str, *schemas: TableSchema) -> str:
    """The statement as bronze has it: without constants, where columns are masked."""
    return without_constants(text) if any(map(_is_masked, schemas)) else text


def _same_texts(before: TableSchema, after: TableSchema, origin: Mapping[str, str]) -> bool:
    """Whether masks are what they were, and texts that hold times have as many digits."""
    old = {column.name: column for column in before.columns}
    for column in after.captured:
        was = old.get(origin.get(column.name, ""), column)
        printed = (entry := mapped(column)) is not None and entry.silver == "string"
        if was.mask != column.mask or (printed and was.fraction != column.fraction):
            return False
    return True


def not_followed(statement: LoggedStatement, options: SourceOptions, table: str = "") -> DefiniteError:
    """The error for a statement that may change a captured table: at which the stream stops, if no table is named."""
    what = f"a statement that may change a captured table cannot be followed: {options.shown(statement.text)}"
    if table:
        return codes.STATEMENT_NOT_FOLLOWED.error(
            f"{what} (at {statement.position}; the table was altered again since)",
            where=table,
            hint="mask its columns by the names that they have by now",
        )
    passing = pass_by(statement.position)
    hint = f"leave the table out (source.tables); or, if the statement changes no captured table: {passing}"
    return codes.STATEMENT_STOPS_STREAM.error(what, where=str(statement.position), hint=hint)


def to_continue(table: str, position: Position) -> str:
    """The hint for a statement at which the stream stops since `on_error` of a table says so."""
    return (
        f"set tables.{table}.on_error to reread or quarantine for the next run to continue; or, if the statement"
        f" changes no captured table: {pass_by(position)}"
    )


def stopped(what: str, table: str, where: str) -> DefiniteError:
    """The error for a table that the user wants no change of."""
    hint = f"tables.{table}.schema_changes is stop; make it evolve for the next run to continue"
    return codes.SCHEMA_CHANGE_STOPPED.error(what, where=where, hint=hint)


def _altered(statement: LoggedStatement, schema: TableSchema, session: Session) -> Altered | None:
    try:
        given = Given(
            schema.charset, session.is_mariadb, logs_generated=logs_generated(session),
            greatest_end=greatest_end(session) if session.is_mariadb else None, session=statement.session,
        )  # fmt: skip
        return altered(statement.text, schema, given, statement.dialect)
    except NotUnderstood:
        return None


def _now(
    session: Session, tables: Tables, tail: Tail, statement: LoggedStatement, before: TableSchema
) -> TableSchema | None:
    """The table as the catalog has it, None where that is not what was after `statement`."""
    schema: TableSchema | None = None
    failure: DefiniteError | None = None
    try:
        schema = tables.now(session, before.name, masking=before)
    except DefiniteError as error:
        failure = error
    if _altered_since(session, tail, statement, before):
        return None
    if failure is not None:
        raise failure
    return schema


def _born(
    session: Session, tables: Tables, tail: Tail, statement: LoggedStatement, before: TableState | None, name: str
) -> TableSchema | None:
    """What `statement` created; None where that is not what the catalog has, or cannot be captured."""
    if before is not None and isinstance(before.phase, Quarantined):
        return None
    try:
        schema = tables.fresh(session, name)
    except DefiniteError:
        return None
    return None if _altered_since(session, tail, statement, schema) else schema


def _refused_birth(
    session: Session,
    tables: Tables,
    store: SchemaStore,
    statement: LoggedStatement,
    before: TableState | None,
    birth: Effect,
) -> list[Effect]:
    """The effect of `statement` where a table was born in it whose columns are not known, and no snapshot follows.

    None where nothing is there to be quarantined, or the end of the log says what is wrong with it.
    """
    name = birth.table
    if before is not None and isinstance(before.phase, Quarantined):
        return []
    try:
        schema = tables.fresh(session, name)
    except DefiniteError as fault:
        _log.warning("%s was created at %s and is not followed from there on: %s", name, statement.position, fault.what)
        return []
    error = codes.SCHEMA_NOT_KNOWN.error(
        f"{name} was created at {statement.position} and altered since: its columns in between are not known",
        where=name,
        hint="its rows are not read from there on",
    )
    if tables.options.stops(name):
        raise error
    change = SchemaChange.leaving(None, schema, reason(error.code, error.what, error.hint, name))
    return [Effect("quarantine", name, store.put_change(change))]


def _altered_since(session: Session, tail: Tail, statement: LoggedStatement, schema: TableSchema) -> bool:
    """Whether DDL after `statement` touched the table before the catalog was asked, or may have."""
    wait_for_ddl(session, [schema])
    tail.advance(server.log_position(session).position)
    return any(not is_silent(later, schema, session) for later in tail.naming(schema.name, after=statement.position))


def is_silent(later: LoggedStatement, schema: TableSchema, session: Session) -> bool:
    """Whether a statement leaves the table its name and its columns, whatever they are."""
    if later.statement.kind is StatementKind.TRUNCATE or later.statement.if_absent or later.statement.repairs:
        return True
    if later.statement.kind is not StatementKind.TABLE_DDL or any(old != new for old, new in later.statement.renames):
        return False  # another table may have the name, or none
    parsed = _altered(later, schema, session)
    return parsed is not None and parsed.silent


def _require_labels(parsed: Altered, now: TableSchema) -> None:
    """Raise DefiniteError where an ENUM or SET has other labels than the statement gave it: no one knows its values.

    A server may spoil labels as it converts them to another character set, without strict mode in silence.
    """
    labels = {column.name: column for column in parsed.schema.columns if column.values}
    for column in now.columns:
        if column.name in labels and column.type == labels[column.name].type:
            wanted = labels[column.name].values
            if column.values != wanted:
                what = f"the server has other labels for column {column.name} of {now.name} than it was altered to have"
                table = for_statements(now.database, now.table)
                hint = f"ALTER TABLE {table} MODIFY {quoted(column.name)} with the labels that it should have"
                raise codes.LABEL_UNREADABLE.error(f"{what}: {column.declared}", where=now.name, hint=hint)


def _agree(parsed: Altered, now: TableSchema, before: TableSchema) -> bool:
    """Whether the catalog has what the statement made of `before`, whose (M,D) of FLOAT and DOUBLE may not be known."""
    old = {column.name: column for column in before.columns}
    unknown = {
        new.name
        for new in parsed.schema.columns
        if new.name in parsed.origin
        and new.type in ("float", "double")
        and new.precision is None
        and replace(old[parsed.origin[new.name]], name=new.name, nullable=new.nullable) == new
    }
    return _plain(parsed.schema, unknown) == _plain(now, unknown)


def _plain(schema: TableSchema, unknown: Collection[str]) -> TableSchema:
    """What a statement says of a schema: no collations, no expressions, no indexes but the primary key, and nothing
    that is the user's choice.

    Of `unknown` columns no (M,D), either.
    """
    columns = (
        replace(
            c, collation=None, charset=charset, captured=True, carried="", mask="", generated="", compressed=False,
            precision=None if c.name in unknown else c.precision, scale=None if c.name in unknown else c.scale,
        )
        for c in schema.columns
        for charset in (charset_name(c.charset) if c.charset else None,)
    )  # fmt: skip
    charset = charset_name(schema.charset) if schema.charset else None
    return replace(
        schema,
        columns=tuple(columns),
        charset=charset,
        hidden_hashes=False,
        prefixed=False,
        unique=None,
        more_unique=None,
    )
