"""Codes 5xxx: bronze, and Delta tables in general."""

from lakehouse_cdc.errors.tree import Code, DefiniteError, Scope, TransientError

NOT_A_DELTA_TABLE = Code(
    5001,
    "not_a_delta_table",
    DefiniteError,
    Scope.PIPELINE,
    "Something that is not a Delta table is where the table would be.",
    "Move it away, or choose another path or schema under target.",
)

TABLE_COLUMNS_DIFFER = Code(
    5002,
    "table_columns_differ",
    DefiniteError,
    Scope.PIPELINE,
    "A table of the lakehouse has other columns than expected.",
    (
        "Move a table of silver away to have it built again: it was altered by hand or by another release; begin again "
        "(lakehouse-cdc reset -c pipeline.yml) where it is one of bronze."
    ),
)

TABLE_FOREIGN = Code(
    5003,
    "table_foreign",
    DefiniteError,
    Scope.PIPELINE,
    "A table of the lakehouse belongs to another pipeline, or to none.",
    "Drop or move that table, or choose another schema under target.",
)

BRONZE_COMMIT_MISSING = Code(
    5004,
    "bronze_commit_missing",
    TransientError,
    Scope.PIPELINE,
    "Bronze does not have the commit of a batch that was just written.",
    (
        "Run again; if it stays, Delta's log no longer has the commit: lakehouse-cdc reset --keep-tables "
        "-c pipeline.yml begins a new epoch over the tables, in which all are read again."
    ),
)

BRONZE_BATCH_SPLIT = Code(
    5005,
    "bronze_batch_split",
    DefiniteError,
    Scope.PIPELINE,
    "A batch of bronze ends inside a commit.",
    "Do not limit the files or bytes of a trigger on bronze.",
)

BRONZE_POSITION_MISSING = Code(
    5006,
    "bronze_position_missing",
    DefiniteError,
    Scope.PIPELINE,
    "No commit of bronze holds the position of the source.",
    (
        "Move the checkpoint that the error names away, and run when a captured table has changed: the next commit "
        "says it. Delta's log no longer has the earlier ones."
    ),
)

BRONZE_EMPTY = Code(
    5007,
    "bronze_empty",
    DefiniteError,
    Scope.PIPELINE,
    "Bronze or silver has not been written yet.",
    "Run the pipeline first.",
)

SCHEMA_RECORD_DAMAGED = Code(
    5008,
    "schema_record_damaged",
    DefiniteError,
    Scope.PIPELINE,
    "The table of schemas does not hold a schema under which rows are written.",
    "Restore the table of schemas; it belongs to the change table.",
)

SCHEMA_CHANGE_INCOMPLETE = Code(
    5009,
    "schema_change_incomplete",
    DefiniteError,
    Scope.TABLE,
    "Bronze does not record where the columns of a changed table come from.",
    "Move bronze away, with its checkpoint, to begin again: it was written by another release.",
)

TABLES_LOCKED = Code(
    5010,
    "tables_locked",
    DefiniteError,
    Scope.PIPELINE,
    "Another process writes to the tables of this pipeline.",
    "Wait until that process has ended, or stop it.",
)

PIPELINE_RUNNING = Code(
    5011,
    "pipeline_running",
    DefiniteError,
    Scope.PIPELINE,
    "The command needs the pipeline to be stopped.",
    "End the run first: interrupt it, or stop the queries in spark.streams.active.",
)

PIPELINE_PAUSED = Code(
    5012,
    "pipeline_paused",
    DefiniteError,
    Scope.PIPELINE,
    "The pipeline is paused by a signal.",
    "lakehouse-cdc signal -c pipeline.yml resume",
)

CHECKPOINT_UNRELATED = Code(
    5013,
    "checkpoint_unrelated",
    DefiniteError,
    Scope.PIPELINE,
    "The checkpoint and the tables do not belong together.",
    "Put back what belongs together, or reset; the error names the commands.",
)

MOMENT_UNRESOLVED = Code(
    5014,
    "moment_unresolved",
    DefiniteError,
    Scope.PIPELINE,
    "The moment that was asked for has no place in the log that bronze holds.",
    "Ask for a position, or for a GTID that changed a captured table.",
)

MOMENT_NOT_REACHED = Code(
    5015,
    "moment_not_reached",
    DefiniteError,
    Scope.PIPELINE,
    "Bronze has not reached the moment that was asked for.",
    "Run, then ask again.",
)

VARIANT_UNREADABLE = Code(
    5016,
    "variant_unreadable",
    DefiniteError,
    Scope.ROW,
    "A VARIANT of a table cannot be read.",
    "Restore the table; use a release that knows this version of VARIANT.",
)

REDACTION_OF_KEY = Code(
    5017,
    "redaction_of_key",
    DefiniteError,
    Scope.TABLE,
    "A column that is to be hidden was once part of the key of its table.",
    "Mask the column by hash, run, and redact again: hashes tell rows apart.",
)

REDACTION_TOO_EARLY = Code(
    5018,
    "redaction_too_early",
    DefiniteError,
    Scope.PIPELINE,
    "Something has yet to be read under the configuration of now, or from bronze as it is.",
    "lakehouse-cdc run --once -c pipeline.yml; then lakehouse-cdc redact -c pipeline.yml.",
)

REDACTION_UNSUPPORTED = Code(
    5019,
    "redaction_unsupported",
    DefiniteError,
    Scope.PIPELINE,
    "Bronze cannot be redacted where it is: in a catalog, or with files that only Delta reads.",
    "Begin again (lakehouse-cdc reset -c pipeline.yml): what is read then is hidden from its beginning.",
)
