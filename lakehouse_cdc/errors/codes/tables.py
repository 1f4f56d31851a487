"""Codes 4xxx: source tables, their types, keys, DDL, and the values of rows."""

from lakehouse_cdc.errors.tree import Code, DefiniteError, Scope, TableError, TransientError

_READ_AGAIN = "lakehouse-cdc signal -c pipeline.yml snapshot TABLE"

TYPE_UNSUPPORTED = Code(
    4001,
    "type_unsupported",
    DefiniteError,
    Scope.TABLE,
    "A column has a type that is not supported.",
    "Exclude the column or the table.",
)

COLUMN_NAME_UNUSABLE = Code(
    4002,
    "column_name_unusable",
    TableError,
    Scope.TABLE,
    "A column has the name of one that silver adds.",
    "Set target.metadata_prefix to another prefix, or rename the column in silver (tables.NAME.rename).",
)

KEY_UNUSABLE = Code(
    4003,
    "key_unusable",
    DefiniteError,
    Scope.TABLE,
    "The primary key of a table cannot be used to order or to match its rows.",
    "Change the setting or the key that the error names, or exclude the table.",
)

MASK_UNUSABLE = Code(
    4004,
    "mask_unusable",
    DefiniteError,
    Scope.TABLE,
    "A column cannot be masked in the way that is configured.",
    "Choose another mask for the column, or exclude it.",
)

LABEL_UNREADABLE = Code(
    4005,
    "label_unreadable",
    DefiniteError,
    Scope.TABLE,
    "A label of an ENUM or SET column cannot be read exactly.",
    "SET GLOBAL binlog_row_metadata = FULL where the server has it, or exclude the column.",
)

TABLE_UNSUPPORTED = Code(
    4006,
    "table_unsupported",
    DefiniteError,
    Scope.TABLE,
    "A table cannot be captured as it is.",
    "Follow the hint of the error, or exclude the table.",
)

TABLE_GONE = Code(
    4007,
    "table_gone",
    DefiniteError,
    Scope.TABLE,
    "A captured table no longer exists on the source.",
    'Leave it out ("!TABLE" under source.tables).',
)

TABLE_CHANGED = Code(
    4009,
    "table_changed",
    DefiniteError,
    Scope.TABLE,
    "A table does not have the definition under which its rows are read.",
    f"Have it read again, as it is now: {_READ_AGAIN}.",
)

STATEMENT_NOT_FOLLOWED = Code(
    4010,
    "statement_not_followed",
    DefiniteError,
    Scope.TABLE,
    "What a statement made of a captured table is not known, for the table changed again since.",
    f"Mask its columns by the names that they have by now; then: {_READ_AGAIN}.",
)

STATEMENT_STOPS_STREAM = Code(
    4011,
    "statement_stops_stream",
    DefiniteError,
    Scope.PIPELINE,
    "The stream cannot pass a statement that may change captured tables.",
    (
        "Leave the table out (source.tables), or set tables.NAME.on_error to reread; or, if the statement changes no "
        "captured table: lakehouse-cdc signal -c pipeline.yml pass FILE:POS."
    ),
)

SCHEMA_CHANGE_STOPPED = Code(
    4012,
    "schema_change_stopped",
    DefiniteError,
    Scope.TABLE,
    "A table was changed, and its schema_changes are configured to stop the stream.",
    "Set tables.NAME.schema_changes: evolve for the next run to continue.",
)

COLUMN_CHOICE_CHANGED = Code(
    4013,
    "column_choice_changed",
    DefiniteError,
    Scope.TABLE,
    "The columns, types, masks or key of a table are configured otherwise than before.",
    "Set them back as they were for one run; this release then knows what is changed.",
)

MASK_SALT_CHANGED = Code(
    4014,
    "mask_salt_changed",
    DefiniteError,
    Scope.PIPELINE,
    "The salt of masks is another one than before, so that equal values would have other hashes.",
    (
        "Set source.mask_salt back; or, to have the new one: lakehouse-cdc reset --keep-tables -c pipeline.yml "
        "(the next run then reads all tables again, in place)."
    ),
)

MASKED_COLUMN_LOST = Code(
    4015,
    "masked_column_lost",
    DefiniteError,
    Scope.TABLE,
    "A masked column disappeared while the log was not read, and a new column may be the same one.",
    f"Mask or exclude the new column; then, if the table is quarantined: {_READ_AGAIN}.",
)

KEYLESS_TABLE_BUSY = Code(
    4016,
    "keyless_table_busy",
    TransientError,
    Scope.TABLE,
    "Rows of a table without a primary key were written at every moment at which they were to be read.",
    "Let its writers pause for a moment, or give the table a primary key; it is read again.",
)

PRIMARY_KEY_MISSING = Code(
    4017,
    "primary_key_missing",
    DefiniteError,
    Scope.TABLE,
    "The operation needs a primary key, and the table has none.",
    "Give the table a primary key.",
)

ROWS_MISSING = Code(
    4018,
    "rows_missing",
    DefiniteError,
    Scope.TABLE,
    "Rows of a snapshot are gone, since a later statement changed the table.",
    "Run again when the pipeline has passed that statement.",
)

ROW_MALFORMED = Code(
    4019,
    "row_malformed",
    DefiniteError,
    Scope.ROW,
    "The bytes of a row do not fit the columns of its table.",
    f"Have the table read again, as it is now: {_READ_AGAIN}.",
)

VALUE_MALFORMED = Code(
    4020,
    "value_malformed",
    DefiniteError,
    Scope.ROW,
    "The bytes of a value are not of the column's type.",
    f"Have the table read again, as it is now: {_READ_AGAIN}.",
)

ZERO_DATE = Code(
    4021,
    "zero_date",
    DefiniteError,
    Scope.ROW,
    "A date has a year, month or day of zero, which no date type can hold.",
    "Give the row a real date or NULL, set zero_dates for the column, or exclude the column.",
)

INVALID_DATE = Code(
    4022,
    "invalid_date",
    DefiniteError,
    Scope.ROW,
    "A date has a day that its month does not have.",
    "Give the row a real date or NULL, or exclude the column.",
)

ROW_TOO_LARGE = Code(
    4023,
    "row_too_large",
    DefiniteError,
    Scope.ROW,
    "A row is larger than a VARIANT can be.",
    "Exclude the large column (tables.NAME.exclude).",
)

ROW_IMAGE_PARTIAL = Code(
    4024,
    "row_image_partial",
    DefiniteError,
    Scope.ROW,
    "A row in the binlog does not hold all columns.",
    (
        "Set binlog_row_image = FULL globally and in the session that writes; exclude generated columns that "
        "MariaDB leaves out."
    ),
)

VALUE_UNREPRESENTABLE = Code(
    4025,
    "value_unrepresentable",
    DefiniteError,
    Scope.ROW,
    "A VARIANT cannot hold a value.",
    "Exclude the column, or change the value on the source.",
)

EXCLUDED_COLUMN_UNREADABLE = Code(
    4026,
    "excluded_column_unreadable",
    DefiniteError,
    Scope.TABLE,
    "The length of an excluded column is not known without the binlog's table map.",
    "Include the column, and report the error.",
)

ROWS_DELAYED = Code(
    4027,
    "rows_delayed",
    DefiniteError,
    Scope.TABLE,
    "A table is written by INSERT DELAYED at all times, whose rows are visible before they are in the binlog.",
    f"SET GLOBAL max_delayed_threads = 0, and FLUSH TABLES; then: {_READ_AGAIN}.",
)

TABLE_DAMAGED = Code(
    4028,
    "table_damaged",
    DefiniteError,
    Scope.TABLE,
    "The server cannot read the rows of a table, whose files are damaged or missing.",
    f"REPAIR TABLE (MyISAM, Aria, CSV), or restore the table from a backup; then: {_READ_AGAIN}.",
)

TABLE_READ_REFUSED = Code(
    4029,
    "table_read_refused",
    DefiniteError,
    Scope.TABLE,
    "The server refuses to show the rows of a table.",
    f"Read the server's message in the error, and change what it names; then: {_READ_AGAIN}.",
)

SCHEMA_NOT_KNOWN = Code(
    4030,
    "schema_not_known",
    DefiniteError,
    Scope.TABLE,
    "The columns that a table had at a place in the log are not known, and there is no snapshot in place of its rows.",
    "Begin after the statement that the error names (source.start, tables.NAME.start); or leave out what was before:"
    f" {_READ_AGAIN}.",
)

START_OF_ADDED_TABLE = Code(
    4031,
    "start_of_added_table",
    DefiniteError,
    Scope.TABLE,
    "A table with a start of its own was added to a pipeline that has run: what was before is not read again.",
    f"Read the changes before by another pipeline, or do without them, and: {_READ_AGAIN}.",
)
