"""The captured tables and their shape, as INFORMATION_SCHEMA has them now.

What is read here must be what a row image in the binlog holds, column by column. On 8.0.31 and 9.7.4 an image holds
all columns in their order: invisible ones and generated ones, stored and virtual (the hidden columns of functional
indexes are in neither). So every column is listed. MariaDB 11.8.9 leaves every generated column, stored or virtual,
out of the images of updates and deletes (10.11.5 and 11.4.5 do not): its value after an UPDATE is nowhere in the log,
and only the server can compute it. A *virtual* one has no value of its own: it is computed for each statement under
that session's settings, so that `hour(ts)` is 10 in an image that a session at +05:00 wrote and 5 in a SELECT at UTC.
There is no one truth to capture, unless its expression proves that all sessions see the same (see
`sql.generated_columns`). Of both kinds the column is left out, or the table is refused, as the setting `generated` says
(see `schema.column_choice`). A stored one has one value, and the image and the SELECT both hold that.

The views show a user only what that user has a right to, and a schema that lacks a column would misread every image:
the columns of a table must be numbered without a hole.

The two queries are not one snapshot. A table that is altered between them is noticed where the schema is used: the
change is in the binlog, and each table map is checked against the schema. Nothing that INFORMATION_SCHEMA caches
(information_schema_stats_expiry concerns sizes and cardinalities) is read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_cdc.errors import DefiniteError, codes
from lakehouse_cdc.model.table_name import join, matches, split
from lakehouse_cdc.mysql.connection.session import Session
from lakehouse_cdc.mysql.key_range import place
from lakehouse_cdc.mysql.literals import for_statements
from lakehouse_cdc.mysql.system_versioning import VERSIONED, greatest_end, is_period, period
from lakehouse_cdc.mysql.uncaptured import CAPTURED, Uncaptured, uncaptured
from lakehouse_cdc.schema.column_choice import Choice
from lakehouse_cdc.schema.engines import INNODB, MEMORY, NOT_OPENED, not_captured
from lakehouse_cdc.schema.selection import SYSTEM_SCHEMAS, Selection, glob_hint, nearest
from lakehouse_cdc.schema.table import Column, TableSchema, UniqueIndex
from lakehouse_cdc.schema.unique_key import with_unique
from lakehouse_cdc.sql.generated_columns import generated_as, same_everywhere

_AT_ONCE = 500  # tables asked for in one statement
_LISTED = 5  # names in a hint
_OF_A_LENGTH = ("char", "varchar", "binary", "varbinary")
_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double")
_NAME = re.compile(r"`((?:[^`]|``)+)`")  # in an expression, whose names the server quotes
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\0": "\0"}  # in COLUMN_TYPE; '' and \\\\ stand for their second half
_CHOSEN = {"exclude": "excluded", "include": "included", "masks": "masked"}
_GENERATED_KEYS_SHOWN = (8, 0, 30)  # the version that brought invisible generated primary keys
_GENERATED_LEFT_OUT = (11, 8, 9)  # the first MariaDB known to log updates without generated columns
_COLUMNS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_MAXIMUM_LENGTH,"
    " NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME, GENERATION_EXPRESSION,"
    " EXTRA, ORDINAL_POSITION"
    " FROM INFORMATION_SCHEMA.COLUMNS WHERE {} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
)
_KEYS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, SUB_PART FROM INFORMATION_SCHEMA.STATISTICS"
    " WHERE INDEX_NAME = 'PRIMARY' AND {} ORDER BY TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX"
)
_UNIQUES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART, INDEX_TYPE FROM INFORMATION_SCHEMA.STATISTICS"
    " WHERE NON_UNIQUE = 0 AND {} ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)
_HASHES = (  # UNIQUE keys that MariaDB keeps as hidden columns
    "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM INFORMATION_SCHEMA.STATISTICS"
    " WHERE INDEX_TYPE = 'HASH' AND NON_UNIQUE = 0 AND {}"
)

_Name = tuple[str, str]


@dataclass
class Catalog:
    """The selected tables by `database.table`, in order, and all that forbids to capture them; see `read_catalog`.

    `uncaptured` is what matches and is not captured, for it is no table that could be.
    """

    tables: dict[str, TableSchema] = field(default_factory=dict)
    faults: list[DefiniteError] = field(default_factory=list)
    uncaptured: Uncaptured = field(default_factory=Uncaptured)


def read_tables(session: Session, selection: Selection, choice: Choice | None = None) -> dict[str, TableSchema]:
    """The selected tables, by `database.table`, sorted by it.

    Their columns are captured and masked as the `choice` says. Types and keys are not judged here (see
    schema.types.check_table).
    Raises DefiniteError where no table, or none for one of the patterns, exists (or may be seen by this user), and for
    the first table whose engine is never captured, a captured column that is generated from a masked one and is not
    masked, or columns that the user may not see; ConfigError for a column that the choice names and no matching table
    has.
    """
    catalog = read_catalog(session, selection, choice)
    if catalog.faults:
        raise catalog.faults[0]
    return catalog.tables


def read_catalog(
    session: Session,
    selection: Selection,
    choice: Choice | None = None,
    *,
    known: Collection[str] = (),
) -> Catalog:
    """As `read_tables`, with every fault collected instead of the first one raised.

    A pattern is no mistake where it matches one of `known`, tables that may be gone by now.
    """
    choice = choice or Choice()
    bases = _base_tables(session)
    left_out = uncaptured(session, selection)
    every = {join(database, table): (database, table) for database, table in bases}
    names = {name: parts for name, parts in every.items() if name not in left_out.tables}
    chosen = {name: names[name] for name in sorted(names) if selection.matches(name)}
    catalog = Catalog(
        faults=_unmatched(selection, names, chosen, known, left_out, session.account), uncaptured=left_out
    )
    if chosen:
        show_generated_keys(session)
    columns = _grouped(session, _COLUMNS, chosen.values())
    keys = _grouped(session, _KEYS, chosen.values())
    hashed = _grouped(session, _HASHES, chosen.values()) if session.is_mariadb else {}
    keyless = [one for one in chosen.values() if one not in keys]
    uniques = _grouped(session, _UNIQUES, keyless)
    versioned = [name for name, one in chosen.items() if bases[one].type == VERSIONED]
    greatest = greatest_end(session) if versioned else ""
    for name, (database, table) in chosen.items():
        rows, key = columns.get((database, table), []), keys.get((database, table), [])
        described = _with_generated([_column(row) for row in rows], rows, logged=logs_generated(session))
        base = bases[database, table]
        versioning = period(rows, greatest) if base.type == VERSIONED else None
        parts = [row for row in key if versioning is None or row[0] != versioning.end]
        schema = TableSchema(
            database, table, described, _shown(parts, described), base.charset,
            hidden_hashes=(database, table) in hashed and base.engine != MEMORY,
            prefixed=any(length is not None for _, length in parts),
            versioning=versioning,
            engine="" if base.engine in (None, INNODB) else str(base.engine),
        )  # fmt: skip
        indexes = uniques.get((database, table), [])
        schema = with_unique(schema, _in_order(session, schema, indexes), len({index for index, *_ in indexes}))
        catalog.tables[name] = choice.chosen(schema)
        catalog.faults += _table_faults(
            catalog.tables[name], not_captured(base.engine), left_out.unfit.get(name), rows, session.account
        )
        if doubtful := _doubtful(catalog.tables[name]):
            catalog.faults += [] if _logs_labels(session) else [_unknown_labels(name, column) for column in doubtful]
    catalog.faults += _unknown_columns(catalog.tables, choice, known)
    return catalog


def show_generated_keys(session: Session) -> None:
    """Have INFORMATION_SCHEMA list generated keys, which a server may hide, though they are in every row image."""
    if not session.is_mariadb and session.version >= _GENERATED_KEYS_SHOWN:
        session.query("SET SESSION show_gipk_in_create_table_and_information_schema = ON")


def _shown(key: Iterable[tuple[Any, ...]], columns: Iterable[Column]) -> tuple[str, ...]:
    """The key, by its rows of the catalog; () where not all of its columns are listed, which is a fault."""
    names = tuple(str(row[0]) for row in key)
    return names if {*names} <= {column.name for column in columns} else ()


def _in_order(session: Session, schema: TableSchema, rows: Sequence[tuple[Any, ...]]) -> list[UniqueIndex]:
    """The UNIQUE indexes over whole columns that are in `rows`, in the table's order, which only SHOW INDEX has."""
    parts: dict[str, list[str]] = {}
    for index, *_ in rows:
        parts[str(index)] = []
    for index, column, length, kind in rows:
        if column is None or length is not None or (kind != "BTREE" and schema.engine != MEMORY):
            parts.pop(str(index), None)  # of an expression, a prefix, or a hash
        elif str(index) in parts:
            parts[str(index)].append(str(column))
    if schema.versioning is not None:
        parts = {name: [*schema.versioning.current_key(columns)] for name, columns in parts.items()}
    found = [UniqueIndex(name, tuple(columns)) for name, columns in parts.items()]
    if len(found) < 2:
        return found
    try:
        shown = session.query(f"SHOW INDEX FROM {place(schema)}")
    except DefiniteError:  # it is gone, or may not be read: that is noticed where it is
        return found
    order = {str(row[2]): at for at, row in reversed([*enumerate(shown)])}
    return sorted(found, key=lambda index: order.get(index.name, len(order)))


@dataclass(frozen=True)
class _Base:
    """What INFORMATION_SCHEMA.TABLES has of a table: its TABLE_TYPE, engine and default character set."""

    type: str
    engine: str | None
    charset: str | None


def _base_tables(session: Session) -> dict[_Name, _Base]:
    """Each table with rows of its own that this user may see, MySQL's own schemas aside."""
    places, types = ", ".join(["%s"] * len(SYSTEM_SCHEMAS)), ", ".join(["%s"] * len(CAPTURED))
    rows = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION FROM INFORMATION_SCHEMA.TABLES"
        f" WHERE TABLE_TYPE IN ({types}) AND TABLE_SCHEMA NOT IN ({places})",
        [*CAPTURED, *SYSTEM_SCHEMAS],
    )
    return {
        (str(database), str(table)): _Base(str(kind), engine, str(collation).partition("_")[0] if collation else None)
        for database, table, kind, engine, collation in rows
    }


def _grouped(session: Session, sql: str, names: Iterable[_Name]) -> dict[_Name, list[tuple[Any, ...]]]:
    """The rows of each table in `names`, without the two leading columns that name it."""
    wanted = list(names)
    groups: dict[_Name, list[tuple[Any, ...]]] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = set(wanted[start : start + _AT_ONCE])
        databases = sorted({database for database, _ in some})
        condition = "TABLE_SCHEMA IN ({}) AND TABLE_NAME IN ({})".format(
            ", ".join(["%s"] * len(databases)), ", ".join(["%s"] * len(some))
        )
        for database, table, *row in session.query(sql.format(condition), [*databases, *(t for _, t in some)]):
            # the two lists also match pairs that another statement asks for
            if (database, table) in some:
                groups.setdefault((database, table), []).append(tuple(row))
    return groups


def _column(row: tuple[Any, ...]) -> Column:
    name, data_type, column_type, nullable, length, precision, scale, fraction, charset, collation, *_ = row
    kind = str(data_type).lower()
    if kind == "bit":
        length = precision
    elif kind not in _OF_A_LENGTH:
        length = None
    # of a FLOAT or DOUBLE without (M,D) the precision is 12 or 22, and the scale NULL
    rounds = kind == "decimal" or (kind in ("float", "double") and scale is not None)
    return Column(
        name=str(name),
        type=kind,
        nullable=nullable == "YES",
        unsigned=kind in _NUMBERS and "unsigned" in str(column_type).lower().split(),
        length=None if length is None else int(length),
        precision=int(precision) if rounds else None,
        scale=int(scale) if rounds else None,
        fraction=int(fraction or 0),
        charset=charset,
        collation=collation,
        values=_labels(str(column_type)) if kind in ("enum", "set") else (),
        compressed=str(column_type).endswith("COMPRESSED*/"),
    )


def _with_generated(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]], *, logged: bool) -> tuple[Column, ...]:
    """The columns, with those marked that are generated, stored or not; `logged`: updates hold them."""
    virtual = {column.name for column, row in zip(columns, rows, strict=True) if "VIRTUAL" in str(row[-2]).upper()}
    expressions = {
        c.name.lower(): str(row[-3]) for c, row in zip(columns, rows, strict=True) if row[-3] and not is_period(row)
    }
    proven = dict.fromkeys(expressions, False)
    marked: list[Column] = []
    for column in columns:
        if (name := column.name.lower()) in expressions:
            proven[name] = same_everywhere(column, expressions[name], columns, virtual=proven)
            kind = generated_as(proven[name], virtual=column.name in virtual, logged=logged)
            column = replace(column, generated=kind)
        marked.append(column)
    return tuple(marked)


def _labels(column_type: str) -> tuple[str, ...]:
    """The labels in `enum('a','it''s')`.

    The server shows them in utf8mb3: a character beyond it comes as `?`, and bytes that are no character as `?`
    (MariaDB) or not at all, nor what is after them (MySQL); see `_longest`. Where the binlog then has another label,
    its table map does not fit the schema, and the stream stops.
    """
    labels = re.findall(r"'((?:[^']|'')*)'", column_type)
    return tuple(re.sub(r"''|\\.", lambda m: _ESCAPES.get(m[0], m[0][1:]), label) for label in labels)


def _doubtful(schema: TableSchema) -> list[Column]:
    """The columns of which a label may be another than the catalog shows: see `_labels`."""
    return [column for column in schema.captured if any("?" in label for label in column.values)]


def _logs_labels(session: Session) -> bool:
    """Whether table maps have the labels, so that another one is noticed."""
    return ("binlog_row_metadata", "FULL") in session.query("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")


def _unknown_labels(name: str, column: Column) -> DefiniteError:
    return codes.LABEL_UNREADABLE.error(
        f"{name} has the column {column.name} with a `?` in a label, which may stand for a character that the server's"
        " catalog cannot show",
        where=name,
        hint="SET GLOBAL binlog_row_metadata = FULL where the server has it, which shows whether it does; or exclude"
        " the column",
    )


def _longest(column: Column) -> int:
    """The characters of the longest value, as CHARACTER_MAXIMUM_LENGTH has it of an ENUM or SET."""
    sizes = [len(label) for label in column.values]
    return max(sizes) if column.type == "enum" else sum(sizes) + len(sizes) - 1


def _unmatched(
    selection: Selection,
    names: Mapping[str, _Name],
    chosen: Mapping[str, _Name],
    known: Collection[str],
    left_out: Uncaptured,
    account: str,
) -> list[DefiniteError]:
    faults = []
    for pattern in selection.unmatched([*names, *known]):
        if matched := {name: why for name, why in left_out.all.items() if matches(name, pattern)}:
            name, why = next(iter(matched.items()))
            what = f"'{pattern}' matches no table that can be captured: {name} {why}"
            faults.append(codes.SELECTION_UNMATCHED.error(what, where="source.tables", hint=f'leave out "{pattern}"'))
            continue
        near = nearest(pattern, names)
        listed = ([near] * bool(near) + [n for n in sorted(names) if n != near])[:_LISTED]
        seen = f"this user sees {', '.join(listed)}" if listed else "this user sees no table at all"
        hint = f"{seen}; check the name, or GRANT SELECT ON {_scope(pattern)} TO {account}"
        if near and near.lower() == pattern.lower():
            hint = f"write {near}: upper and lower case differ"
        what = f"no table matches '{pattern}'"
        faults.append(codes.SELECTION_UNMATCHED.error(what, where="source.tables", hint=glob_hint(pattern) or hint))
    if not chosen and not known and not faults:
        faults.append(
            codes.SELECTION_UNMATCHED.error(
                "no table is selected: the exclusions shut out all that the other patterns match",
                where="source.tables",
                hint=f"without them there would be {', '.join(selection.shut_out(sorted(names))[:_LISTED])}",
            )
        )
    return faults


def _scope(pattern: str) -> str:
    """What a GRANT names for the tables of a pattern: one table, one database, or all."""
    database, table = split(pattern)
    globs = [bool(set(part) & set("*?[")) for part in (database, table)]
    if globs[0]:
        return "*.*"
    return f"{for_statements(database)}.*" if globs[1] else for_statements(database, table)


def logs_generated(session: Session) -> bool:
    """Whether the images of the server's updates hold generated columns."""
    return not session.is_mariadb or session.version < _GENERATED_LEFT_OUT


def _table_faults(
    schema: TableSchema,
    engine: str | None,
    unfit: str | None,
    columns: Sequence[tuple[Any, ...]],
    account: str,
) -> list[DefiniteError]:
    name = schema.name
    table = for_statements(schema.database, schema.table)
    leave_out = f'leave the table out ("!{name}" under source.tables)'
    faults = []
    if engine is not None:
        faults.append(
            (engine, leave_out if engine == NOT_OPENED else f"ALTER TABLE {table} ENGINE = InnoDB, or {leave_out}")
        )
    if unfit is not None:
        faults.append((unfit, leave_out))
    if [row[-1] for row in columns] != list(range(1, len(columns) + 1)) or not columns:
        faults.append(("has columns that the user may not see", f"GRANT SELECT ON {table} TO {account}"))
    faults += [
        (
            f"has the column {column.name} with labels that are no text: the server lists them otherwise than they are",
            f"exclude the column, give it labels of characters (ALTER TABLE), or {leave_out}",
        )
        for column, row in zip(schema.columns, columns, strict=True)
        if column.captured and column.values and _longest(column) != int(row[4])
    ]
    faults += [
        (
            f"has the column {column.name}, which is generated from a masked one and shows its values",
            f"mask the column, exclude it, or {leave_out}",
        )
        for column in _telling(schema, columns)
    ]
    return [codes.TABLE_UNSUPPORTED.error(f"{name} {what}", where=name, hint=hint) for what, hint in faults]


def _telling(schema: TableSchema, columns: Sequence[tuple[Any, ...]]) -> list[Column]:
    """The columns, captured and not masked, that are generated from a masked one, perhaps over others."""
    made_of = {
        column.name: {name.replace("``", "`").lower() for name in _NAME.findall(str(row[-3]))}
        for column, row in zip(schema.columns, columns, strict=True)
        if row[-3]
    }
    telling = {column.name.lower() for column in schema.columns if column.mask}
    masked, more = set(telling), True
    while more:
        names = {name.lower() for name, words in made_of.items() if words & telling}
        more, telling = bool(names - telling), telling | names
    return [c for c in schema.captured if c.name.lower() in telling - masked]


def _unknown_columns(tables: Mapping[str, TableSchema], choice: Choice, known: Collection[str]) -> list[DefiniteError]:
    faults: list[DefiniteError] = []
    for setting, pattern, names in choice.named():
        there = {c.name.lower(): c.name for name, t in tables.items() if matches(name, pattern) for c in t.columns}
        if not there and any(matches(name, pattern) for name in known):
            continue
        for name in names:
            if name.lower() not in there:
                near = [there[c] for c in difflib.get_close_matches(name.lower(), there, n=_LISTED, cutoff=0.0)]
                faults.append(
                    codes.COLUMN_CHOICE_UNMATCHED.error(
                        f"the {_CHOSEN[setting]} column {name} does not exist in any captured table that matches"
                        f" '{pattern}'",
                        where=f"tables.{pattern}.{setting}",
                        hint=f"they have {', '.join(near)}" if near else "no captured table matches that pattern",
                    )
                )
    return faults
