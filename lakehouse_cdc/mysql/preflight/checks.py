"""All that must be true of a server before its first row is read, checked one by one and each with its remedy.

Every condition here is one whose breach loses or distorts rows later, or stops the stream at a moment that nobody
chose. A right is checked by using it, not by reading grants, so that roles and partial revokes count as they do later.
A setting that sessions may change for themselves (format, row image) is only a default: what a session does otherwise
is caught in the binlog itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from lakehouse_cdc.errors import ConfigError, DefiniteError, codes
from lakehouse_cdc.model.table_name import join
from lakehouse_cdc.model.variant import MAX_SIZE
from lakehouse_cdc.mysql import object_references, server
from lakehouse_cdc.mysql.catalog import Catalog, read_catalog
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.literals import for_statements, quoted
from lakehouse_cdc.mysql.log_view import retention_of
from lakehouse_cdc.mysql.preflight.connection import connection_findings
from lakehouse_cdc.mysql.preflight.settings import Finding, Settings, judge, retention
from lakehouse_cdc.mysql.uncaptured import Uncaptured, sentences, some
from lakehouse_cdc.schema import types
from lakehouse_cdc.schema.column_choice import Choice, left_out
from lakehouse_cdc.schema.declared_key import Keys, with_key
from lakehouse_cdc.schema.representation import DATES
from lakehouse_cdc.schema.selection import Selection
from lakehouse_cdc.schema.table import TableSchema
from lakehouse_cdc.sql.references import ANY

_OLDEST, _OLDEST_MARIADB = (5, 7, 0), (10, 5, 2)
_UNBOUNDED = ("json", "longblob", "longtext")  # a value of any other type has less than 16 MiB
_CHANGES_ROWS = ("CASCADE", "SET NULL")


def check(
    session: Session, selection: Selection, choice: Choice | None = None, keys: Keys | None = None
) -> list[Finding]:
    """Check the server, this user's rights, and the selected tables; `choice` as in `read_tables`, `keys` as given.

    Reads only. A server of another kind or too old gives that one finding alone. Raises DefiniteError or
    TransientError only where the connection fails.
    """
    findings = [_version(session)]
    if findings[0].severity == "error":
        return findings
    settings = Settings.of(session)
    findings += [*connection_findings(session), *judge(settings)]
    findings.append(retention(settings, retention_of(session)))
    findings += [_semi_sync(session, settings), _prepared(session)]
    if not session.is_mariadb and session.version < (8, 0, 0):
        findings.append(_order_of_xa(session))
    rights = _rights(session)
    findings += rights
    catalog = read_catalog(session, selection, choice)
    if all(f.severity == "ok" for f in rights) and settings.is_on("log_bin"):
        findings += [_replica(session, settings), _filters(session, catalog.tables)]
    findings += _tables(session, settings, catalog, keys or {})
    findings += _cascades(session, settings, catalog.tables)
    findings.append(_texts(session))
    return findings


def require(findings: Sequence[Finding], stops: Callable[[str], bool] = lambda _: False) -> None:
    """Raise the first error among the findings, as DefiniteError (ConfigError if the configuration is wrong).

    What keeps one table from being captured is no error where another table can be: that table is quarantined. It is
    one where the table is not to be left out (`stops`).
    """
    others = any(finding.name == "tables" and finding.severity == "ok" for finding in findings)
    for finding in findings:
        spared = others and finding.is_of_table and not stops(finding.name)
        if finding.severity == "error" and not spared:
            raise finding.code.error(finding.what, where=finding.name, hint=finding.hint)


def _version(session: Session) -> Finding:
    text = ".".join(map(str, session.version))
    kind, oldest = ("MariaDB", _OLDEST_MARIADB) if session.is_mariadb else ("MySQL", _OLDEST)
    if session.version < oldest:
        hint = "use MySQL 5.7 or later, or MariaDB 10.5 or later"
        return Finding("version", "error", f"{kind} {text} is not supported", hint)
    return Finding("version", "ok", f"{kind} {text}")


def _semi_sync(session: Session, settings: Settings) -> Finding:
    state = server.semi_sync(session)
    if not state.enabled:
        return Finding("semi_sync", "ok", "commits wait for no replica")
    what = f"commits wait up to {state.timeout_seconds:.0f} s for a replica"
    if not state.endless or settings.get("gtid_mode") == "ON":
        return Finding("semi_sync", "ok", what)
    what = f"{what}, and gtid_mode is not ON: time does not show when a commit becomes visible"
    if server.has_process_right(session):
        return Finding("semi_sync", "warning", f"{what}; the PROCESS right serves", "turn GTIDs on")
    return Finding("semi_sync", "error", what, f"GRANT PROCESS ON *.* TO {session.account}, or turn GTIDs on")


def _prepared(session: Session) -> Finding:
    prepared = server.prepared_xids(session)
    if prepared is None:
        return Finding(
            "xa", "warning", "XA transactions that are prepared at the first start cannot be seen: the stream stops"
            " where one of them is committed",
            f"if applications use XA: GRANT XA_RECOVER_ADMIN ON *.* TO {session.account}",
        )  # fmt: skip
    if prepared:
        what = f"{len(prepared)} XA transactions are prepared: the first start may wait until they have ended"
        return Finding("xa", "warning", what, "XA COMMIT or XA ROLLBACK what was left behind (XA RECOVER lists it)")
    return Finding("xa", "ok", "no XA transaction is prepared")


def _order_of_xa(session: Session) -> Finding:
    """MySQL 5.7 commits in InnoDB first where another session ends an XA transaction, and releases the locks by that.

    So a row may be seen, and even changed by the next transaction, before the XA COMMIT is in the binlog.
    """
    commits = int(session.one("SHOW GLOBAL STATUS LIKE 'Com_xa_commit'")[1])
    if not commits:
        return Finding("xa_order", "ok", "no XA COMMIT since the server started")
    return Finding(
        "xa_order", "warning", f"{commits} XA COMMITs since the server started: MySQL 5.7 may log one after"
        " changes that waited for it, where another session commits than the one that prepared",
        "upgrade to MySQL 8.0; until then commit in the session that prepares, or compare from time to time, by"
        " lakehouse-cdc verify --repair -c pipeline.yml",
    )  # fmt: skip


def _rights(session: Session) -> list[Finding]:
    """Each right is tried by a cheap statement that the server allows with that right only."""
    if session.is_mariadb:
        return [_granted(session, "REPLICATION SLAVE"), _right(session, "BINLOG MONITOR", "SHOW BINARY LOGS")]
    replicas = "SHOW REPLICAS" if session.version >= (8, 0, 22) else "SHOW SLAVE HOSTS"
    tried = [("REPLICATION SLAVE", replicas), ("REPLICATION CLIENT", "SHOW BINARY LOGS")]
    return [_right(session, *each) for each in tried]


def _granted(session: Session, right: str) -> Finding:
    """MariaDB has no statement that needs this right and nothing else; its grants list those of active roles, too."""
    grants = [str(row[0]).upper() for row in session.query("SHOW GRANTS")]
    on_all = [grant.partition(" ON *.* ")[0] for grant in grants if " ON *.* " in grant]
    if any(right in rights or "ALL PRIVILEGES" in rights for rights in on_all):
        return Finding(right, "ok", f"the user has {right}")
    return Finding(right, "error", f"the user has no {right} right", f"GRANT {right} ON *.* TO {session.account}")


def _right(session: Session, right: str, statement: str) -> Finding:
    try:
        session.query(statement)
    except DefiniteError as error:
        if error.code is codes.BINLOG_DISABLED:  # reported after the right was checked, and a finding of its own
            return Finding(right, "ok", f"the user has {right}")
        if error.code is not codes.RIGHT_MISSING:
            raise
        return Finding(right, "error", f"the user has no {right} right", f"GRANT {right} ON *.* TO {session.account}")
    return Finding(right, "ok", f"the user has {right}")


def _replica(session: Session, settings: Settings) -> Finding:
    """A replica that does not log what it applies has a binlog without those rows."""
    new = session.version >= (8, 0, 22) and not session.is_mariadb
    try:
        rows = session.query("SHOW REPLICA STATUS" if new else "SHOW SLAVE STATUS")
    except DefiniteError as error:
        if error.code is not codes.RIGHT_MISSING:
            raise
        what = "the user may not see whether the server is a replica, which must log the changes that it applies"
        return Finding("log_replica_updates", "warning", what, f"GRANT SLAVE MONITOR ON *.* TO {session.account}")
    logs = settings.get("log_replica_updates") or settings.get("log_slave_updates", "OFF")
    if rows and logs != "ON":
        return Finding(
            "log_replica_updates", "error", "the server is a replica and does not log the changes that it applies",
            "set log_replica_updates in its option file and restart it, or read from its source",
        )  # fmt: skip
    return Finding("log_replica_updates", "ok", "every change is logged, by any session")


def _filters(session: Session, tables: Mapping[str, TableSchema]) -> Finding:
    """binlog_do_db and binlog_ignore_db keep databases out of the binlog."""
    logged, ignored = (set(names.split(",")) - {""} for names in server.binlog_status(session)[2:4])
    databases = {table.database for table in tables.values()}
    missing = sorted(databases - logged if logged else databases & ignored)
    if missing:
        return Finding(
            "binlog_do_db", "error", f"changes of the database {', '.join(missing)} are kept out of the binlog",
            "change binlog_do_db and binlog_ignore_db in the server's option file and restart it",
        )  # fmt: skip
    return Finding("binlog_do_db", "ok", "no captured database is kept out of the binlog")


def _tables(session: Session, settings: Settings, catalog: Catalog, keys: Keys) -> list[Finding]:
    faults = list(catalog.faults)
    for schema in catalog.tables.values():
        try:
            faults += types.faults(with_key(schema, keys))
        except ConfigError as error:
            faults.append(error)
        faults += _unreadable(session, schema)
        if settings.get("lower_case_table_names") == "2" and schema.name != schema.name.lower():
            what = f"{schema.name} has capitals in its name, which lower_case_table_names = 2 does not keep everywhere"
            faults.append(
                codes.TABLE_NAME_CASE.error(what, where=schema.name, hint="rename it to lower case, or leave it out")
            )
    findings = [Finding(fault.where or "tables", "error", fault.what, fault.hint, fault.code) for fault in faults]
    at_fault = {fault.where for fault in faults}
    if usable := [name for name in catalog.tables if name not in at_fault]:
        what = f"{len(usable)} tables can be captured: {some(usable)}"
        findings.append(Finding("tables", "ok", what))
    findings += [_left_out(schema) for name, schema in catalog.tables.items() if left_out(schema)]
    return [*findings, *_locked(catalog.tables.values()), *_uncaptured(catalog.uncaptured)]


def zero_date_defaults(session: Session, tables: Mapping[str, TableSchema]) -> list[Finding]:
    """The columns of `tables`, with what the user says of them, whose default is a date that cannot be held.

    Of columns that are carried as text, or with NULL for such dates, there are none.
    """
    defaults = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS"
        f" WHERE DATA_TYPE IN {DATES} AND (COLUMN_DEFAULT LIKE '%0000-%' OR COLUMN_DEFAULT LIKE '%-00%')"
    )
    no_dates = {(join(str(database), str(table)), str(column)) for database, table, column in defaults}
    return [
        Finding(
            "zero_dates", "warning",
            f"{schema.name}.{column.name} has a default that is no date: a row with it quarantines the table",
            f"set source.zero_dates to null or text, or tables.{schema.name}.types: {{{column.name}: text}}",
        )
        for schema in tables.values()
        for column in schema.columns
        if (schema.name, column.name) in no_dates and column.captured and not column.carried
    ]  # fmt: skip


def large_rows(session: Session, tables: Mapping[str, TableSchema]) -> list[Finding]:
    """The tables whose rows are so large on average that one may exceed what a row can hold.

    Of tables whose large columns are excluded there are none.
    """
    sizes = server.average_row_sizes(session, MAX_SIZE // 16)
    return [
        Finding(
            "row_size", "warning",
            f"a row of {schema.name} has {sizes[schema.name] >> 20} MiB on average: one of more than {MAX_SIZE >> 20}"
            " MiB quarantines the table",
            f"exclude large columns: tables.{schema.name}.exclude: [{large[0]}]",
        )
        for schema in tables.values()
        for large in ([c.name for c in schema.columns if c.captured and c.type in _UNBOUNDED],)
        if schema.name in sizes and large
    ]  # fmt: skip


def _left_out(schema: TableSchema) -> Finding:
    """The notice of a table's generated columns that are left out."""
    what = "; ".join(f"column {name} {why}" for name, why in left_out(schema).items())
    hint = "make it STORED, or compute it in silver (tables.NAME.columns); source.generated: fail refuses such a table"
    return Finding(
        f"{schema.name} generated", "warning", f"{schema.name} is captured without some columns: {what}", hint
    )


def _locked(tables: Iterable[TableSchema]) -> list[Finding]:
    """The tables of engines that lock the whole table for each statement, also for a SELECT of ours."""
    names = [f"{schema.name} ({schema.engine})" for schema in tables if schema.locked]
    what = f"writers wait while a chunk is read, since the engine locks the whole table: {some(names)}"
    return [Finding("engines", "ok", what)] if names else []


def _uncaptured(names: Uncaptured) -> list[Finding]:
    """What matches and is not captured: a finding for each reason, with the first names."""
    hint = 'shut out what is not wanted ("!DATABASE.TABLE" under source.tables)'
    tables = [Finding("uncaptured", "warning", line, hint) for line in sentences(names.tables)]
    return tables + [Finding("uncaptured", "ok", line) for line in sentences(names.without_rows)]


def _unreadable(session: Session, schema: TableSchema) -> list[DefiniteError]:
    """`*` wants the right on the whole table: with some columns only, the server would also hide the others' shape."""
    try:
        session.query(f"SELECT * FROM {quoted(schema.database)}.{quoted(schema.table)} LIMIT 0")
    except DefiniteError as error:
        if error.code is not codes.RIGHT_MISSING:
            return [codes.TABLE_UNREADABLE.error(error.what, where=schema.name, hint=error.hint)]
        name = for_statements(schema.database, schema.table)
        what, hint = f"the user may not SELECT from {schema.name}", f"GRANT SELECT ON {name} TO {session.account}"
        return [codes.TABLE_UNREADABLE.error(what, where=schema.name, hint=hint)]
    return []


def _texts(session: Session) -> Finding:
    """What this user may not see of what a statement logged as text leads to: any captured table then may be."""
    visible = object_references.sight(session)
    hidden = [
        ("triggers", "TRIGGER", ANY in visible.triggers),
        ("views", "SHOW VIEW", object_references.grants(session).has("SHOW VIEW")),
        ("tables", "SELECT", visible.tables),
        ("stored routines", "SELECT", visible.routines),
    ]
    lacking = [(what, right) for what, right, seen in hidden if not seen]
    if not lacking:
        return Finding("logged_as_text", "ok", "what a statement logged as text may change is known of all objects")
    what = ", ".join(name for name, _ in lacking)
    rights = ", ".join(dict.fromkeys(right for _, right in lacking))
    return Finding(
        "logged_as_text", "warning", f"the user may not see all {what}: where a session logs statements as text"
        " (binlog_format = STATEMENT or MIXED), more tables may be read again than it changed",
        f"if sessions do so: GRANT {rights} ON *.* TO {session.account}",
    )  # fmt: skip


def _cascades(session: Session, settings: Settings, tables: Mapping[str, TableSchema]) -> list[Finding]:
    """Foreign keys by which InnoDB changes rows of captured tables without a word in the binlog.

    From MySQL 9.6 on they are logged, unless innodb_native_foreign_keys is ON (seen on 9.7.4).
    """
    if settings.get("innodb_native_foreign_keys") == "OFF":
        return [Finding("foreign_keys", "ok", "changes by foreign keys are logged")]
    rows = session.query(
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE"
        " FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS ORDER BY 1, 2, 3"
    )
    findings = []
    for database, table, key, on_delete, on_update in rows:
        name = join(str(database), str(table))
        rules = {"DELETE": on_delete, "UPDATE": on_update}
        actions = [f"ON {verb} {rule}" for verb, rule in rules.items() if rule in _CHANGES_ROWS]
        if name in tables and actions:
            what = f"{name}: the foreign key {key} has {' '.join(actions)}, and the binlog does not show those changes"
            hint = "verify finds such rows; let the application delete or update them itself to have them captured"
            findings.append(Finding("foreign_keys", "warning", what, hint))
    return findings or [Finding("foreign_keys", "ok", "no foreign key changes rows of a captured table")]
