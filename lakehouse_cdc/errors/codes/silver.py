"""Codes 6xxx: silver tables, their forms, declarative pipelines, and verification."""

from lakehouse_cdc.errors.tree import Code, ConfigError, DefiniteError, Scope, TableError, TransientError

SILVER_KEY_MISSING = Code(
    6001,
    "silver_key_missing",
    TableError,
    Scope.TABLE,
    "A table without a primary key cannot have a silver table of its form.",
    "Set tables.NAME.key: [columns], or take track out of tables.NAME.",
)

APPEND_WITH_KEY = Code(
    6002,
    "append_with_key",
    TableError,
    Scope.TABLE,
    "A table with a key cannot have the append form.",
    "Remove append from the settings of the table: the next run builds its silver table again.",
)

APPEND_ROW_CHANGED = Code(
    6003,
    "append_row_changed",
    TableError,
    Scope.TABLE,
    "A row was updated or deleted in a table whose silver table only adds rows.",
    "Signal snapshot for the table; or remove append from its settings, or set key in its place.",
)

DECLARED_KEY_NOT_UNIQUE = Code(
    6004,
    "declared_key_not_unique",
    TableError,
    Scope.TABLE,
    "Several rows have the same value of the declared key.",
    "Choose other columns for tables.NAME.key; or correct the rows, and signal snapshot for the table.",
)

FROZEN_KEY_CHANGED = Code(
    6005,
    "frozen_key_changed",
    TableError,
    Scope.TABLE,
    "The key of a table changed, and its silver table is frozen.",
    "Set tables.NAME.schema_changes: evolve, or take one of several that go into one table out of into.",
)

FROZEN_COLUMN_UNFIT = Code(
    6006,
    "frozen_column_unfit",
    TableError,
    Scope.TABLE,
    "A frozen silver table cannot hold the new type of a column.",
    "Set tables.NAME.schema_changes: evolve, or take one of several that go into one table out of into.",
)

FROZEN_VALUE_UNFIT = Code(
    6007,
    "frozen_value_unfit",
    TableError,
    Scope.ROW,
    "A value does not fit its column of a frozen silver table.",
    "Set tables.NAME.schema_changes: evolve, or take one of several that go into one table out of into.",
)

SILVER_VALUE_UNFIT = Code(
    6008,
    "silver_value_unfit",
    TableError,
    Scope.ROW,
    "A value in bronze does not fit its column in silver.",
    "Signal snapshot for the table: it was altered in a way that was not seen.",
)

COMPUTED_TYPE_CHANGED = Code(
    6009,
    "computed_type_changed",
    TableError,
    Scope.TABLE,
    "A computed column would get another type than it has.",
    "Cast it in its expression: the next run builds the silver table again.",
)

TRANSFORM_REFUSED = Code(
    6010,
    "transform_refused",
    TableError,
    Scope.TABLE,
    "The rename, computed, filter or metadata of a table do not fit its columns.",
    "Let them name columns that the table always had: the next run builds the silver table again.",
)

TRACKED_COLUMN_MISSING = Code(
    6011,
    "tracked_column_missing",
    TableError,
    Scope.TABLE,
    "A column whose history is to be tracked does not exist.",
    "Take it out of track, or let silver keep the name that it had, by rename.",
)

CLUSTERING_REFUSED = Code(
    6012,
    "clustering_refused",
    TableError,
    Scope.TABLE,
    "A silver table cannot be clustered by a column.",
    "Let tables.NAME.cluster_by name columns of silver: numbers, texts, dates or times.",
)

SILVER_FORM_CHANGED = Code(
    6013,
    "silver_form_changed",
    TableError,
    Scope.TABLE,
    "A silver table that several source tables go into exists in another form than is configured.",
    "Move it away to have it built again from bronze, or set scd and deletes back.",
)

SILVER_TRANSFORM_CHANGED = Code(
    6014,
    "silver_transform_changed",
    TableError,
    Scope.TABLE,
    "A silver table that several go into was made with another rename, computed, filter or metadata.",
    "Move it away to have it built again from bronze, or set these back.",
)

SILVER_FROZEN_EARLIER = Code(
    6015,
    "silver_frozen_earlier",
    TableError,
    Scope.TABLE,
    "A silver table was frozen while its source changed, and is to evolve now.",
    "Move it away to have it built again from bronze, or set schema_changes: freeze.",
)

SILVER_CHANGE_INTERRUPTED = Code(
    6016,
    "silver_change_interrupted",
    DefiniteError,
    Scope.TABLE,
    "A silver table is inside a change of its schema that bronze does not continue.",
    "Restore bronze, or move the silver table away to have it built again.",
)

LEDGER_FOREIGN = Code(
    6017,
    "ledger_foreign",
    DefiniteError,
    Scope.PIPELINE,
    "The ledger of silver is of another bronze.",
    "Move the ledger away: the next run makes it again.",
)

TOMBSTONES_MISSING = Code(
    6018,
    "tombstones_missing",
    DefiniteError,
    Scope.TABLE,
    "The tombstones of a silver table are gone.",
    "Restore them, or move the silver table away to have both built again from bronze.",
)

SILVER_WRITE_FAILED = Code(
    6019,
    "silver_write_failed",
    TransientError,
    Scope.TABLE,
    "A silver table could not be written.",
    "Run again; if it stays, see Spark's message in the error.",
)

AS_OF_UNAVAILABLE = Code(
    6020,
    "as_of_unavailable",
    DefiniteError,
    Scope.TABLE,
    "A table cannot be read as of that moment.",
    "Ask for another moment; the error says which ones are known.",
)

DECLARATIVE_SETTING_UNSUPPORTED = Code(
    6021,
    "declarative_setting_unsupported",
    DefiniteError,
    Scope.TABLE,
    "A declarative pipeline does not support a setting or a column of a table.",
    "Remove the setting, exclude the column, or run this pipeline as a job.",
)

DECLARATIVE_RUNTIME_UNSUPPORTED = Code(
    6022,
    "declarative_runtime_unsupported",
    DefiniteError,
    Scope.PIPELINE,
    "The runtime of the declarative pipeline lacks a function.",
    "Use a newer runtime, or run this pipeline as a job.",
)

DECLARATIVE_TARGET_INVALID = Code(
    6023,
    "declarative_target_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A declarative pipeline must keep its tables in a catalog.",
    "Set target.catalog and target.checkpoints in place of target.path.",
)

DECLARATIVE_TABLE_FOREIGN = Code(
    6024,
    "declarative_table_foreign",
    DefiniteError,
    Scope.TABLE,
    "A table was not made by this declarative pipeline.",
    "Drop or move that table, or choose another schema under target.",
)

DECLARATIVE_REFRESH_NEEDED = Code(
    6025,
    "declarative_refresh_needed",
    DefiniteError,
    Scope.TABLE,
    "AUTO CDC cannot follow a change of the schema of a table.",
    "Run one update that refreshes the table fully, with the setting that the error names.",
)

DECLARATIVE_SCHEMA_NEWER = Code(
    6026,
    "declarative_schema_newer",
    TransientError,
    Scope.TABLE,
    "Bronze has rows of a schema that is newer than this update.",
    "Start the next update.",
)

PREDICATE_UNUSABLE = Code(
    6027,
    "predicate_unusable",
    DefiniteError,
    Scope.TABLE,
    "The rows of a table cannot be chosen by this condition.",
    "Verify or repair the table as a whole, or correct the condition.",
)

TABLE_CHANGED_MEANWHILE = Code(
    6028,
    "table_changed_meanwhile",
    TransientError,
    Scope.TABLE,
    "The schema of a table changed while it was verified, or silver has not applied the change yet.",
    "Do the same again.",
)

SILVER_PREFIX_CHANGED = Code(
    6029,
    "silver_prefix_changed",
    TableError,
    Scope.TABLE,
    "A silver table that several source tables go into was made with another target.metadata_prefix.",
    "Move it away to have it built again from bronze, or set target.metadata_prefix back.",
)

COPIES_MISSING = Code(
    6030,
    "copies_missing",
    TableError,
    Scope.TABLE,
    "A row of a table without a key goes more often than silver has it.",
    "Signal snapshot for the table: it is read again.",
)

MULTISET_WITH_KEY = Code(
    6031,
    "multiset_with_key",
    TableError,
    Scope.TABLE,
    "A table with a key cannot have the form of tables without one.",
    "Remove form from the settings of the table: the next run builds its silver table again.",
)

SILVER_CONSTRAINT_VIOLATED = Code(
    6032,
    "silver_constraint_violated",
    TableError,
    Scope.TABLE,
    "A silver table has a constraint that somebody gave it, and rows of the source violate it.",
    "Take the constraint back by the statement that the error names, and run again.",
)
