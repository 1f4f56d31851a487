"""Codes 2xxx: the MySQL or MariaDB server, the connection, and the rights of the user."""

from lakehouse_cdc.errors.tree import Code, ConfigError, DefiniteError, Scope, TransientError

CONNECTION_LOST = Code(
    2001,
    "connection_lost",
    TransientError,
    Scope.PIPELINE,
    "The server could not be reached, or the connection was lost.",
    "Check that the server runs and that host and port (source.url) can be reached from here; then run again.",
)

SERVER_OVERLOADED = Code(
    2002,
    "server_overloaded",
    TransientError,
    Scope.PIPELINE,
    "The server has no connection, thread, memory or disk space left.",
    "Free the resource on the server, or raise its limit; then run again.",
)

SERVER_RESTARTING = Code(
    2003,
    "server_restarting",
    TransientError,
    Scope.PIPELINE,
    "The server shuts down, restarts, or is in offline mode.",
    "Run again when the server is up.",
)

STATEMENT_INTERRUPTED = Code(
    2004,
    "statement_interrupted",
    TransientError,
    Scope.PIPELINE,
    "A statement waited too long for a lock, or was ended by the server.",
    "Look for long transactions and locks (SHOW PROCESSLIST), and run again.",
)

ACCESS_DENIED = Code(
    2005,
    "access_denied",
    DefiniteError,
    Scope.PIPELINE,
    "The server does not let the user in.",
    "Check the user and the password (source.url, source.password), and that the server accepts this host.",
)

RIGHT_MISSING = Code(
    2006,
    "right_missing",
    DefiniteError,
    Scope.PIPELINE,
    "The user of the source lacks a right.",
    "GRANT the right that the error names to the user of the source.",
)

OBJECT_MISSING = Code(
    2007,
    "object_missing",
    DefiniteError,
    Scope.PIPELINE,
    "The server does not have a database, table or column of that name.",
    "Check the name: the object was dropped, renamed or changed, or its name is misspelt.",
)

AUTHENTICATION_UNSUPPORTED = Code(
    2008,
    "authentication_unsupported",
    DefiniteError,
    Scope.PIPELINE,
    "The server authenticates the user by a plugin that is not supported.",
    "Let the user authenticate by caching_sha2_password, or on MariaDB by mysql_native_password (ALTER USER).",
)

TLS_FAILED = Code(
    2009,
    "tls_failed",
    DefiniteError,
    Scope.PIPELINE,
    "The TLS connection could not be made, or the certificate cannot be trusted.",
    (
        "Give the authority of the certificate as source.tls_ca, and see source.tls; the name in source.url must "
        "be in the certificate."
    ),
)

HOST_UNKNOWN = Code(
    2010,
    "host_unknown",
    DefiniteError,
    Scope.PIPELINE,
    "The name of the host cannot be resolved.",
    "Correct the host in source.url.",
)

BINLOG_DISABLED = Code(
    2011,
    "binlog_disabled",
    DefiniteError,
    Scope.PIPELINE,
    "The server writes no binlog.",
    "Start the server with log_bin and binlog_format = ROW.",
)

XA_RECOVER_DENIED = Code(
    2012,
    "xa_recover_denied",
    DefiniteError,
    Scope.PIPELINE,
    "The user may not list prepared XA transactions.",
    "GRANT XA_RECOVER_ADMIN ON *.* TO the user of the source.",
)

STATEMENT_REFUSED = Code(
    2013,
    "statement_refused",
    DefiniteError,
    Scope.PIPELINE,
    "The server refused a statement.",
    "Read the server's message in the error, and change what it names.",
)

SERVER_ANSWER_UNEXPECTED = Code(
    2014,
    "server_answer_unexpected",
    DefiniteError,
    Scope.PIPELINE,
    "The server answered in a form that this release does not know.",
    "Let source.url name the server itself, where something between answers for it; else report this with the "
    "server's version.",
)

SERVER_CHANGED = Code(
    2015,
    "server_changed",
    DefiniteError,
    Scope.PIPELINE,
    "A new connection reached another server than the one before.",
    "Let source.url name one server, not a proxy or a name that moves between servers.",
)

SERVER_MOVED = Code(
    2023,
    "server_moved",
    TransientError,
    Scope.PIPELINE,
    "A batch was planned on one server, and a connection reached another one, which the stream may follow.",
    "Run again, if it is not tried again by itself: the batch is then read from the other server.",
)

SERVER_UNFIT = Code(
    2016,
    "server_unfit",
    DefiniteError,
    Scope.PIPELINE,
    "A check of the server or of the user's rights failed.",
    "Follow the hint of the check; lakehouse-cdc doctor -c pipeline.yml lists all checks.",
)

SETTLE_UNAVAILABLE = Code(
    2017,
    "settle_unavailable",
    DefiniteError,
    Scope.PIPELINE,
    "The server or the user's rights do not allow the configured way to settle a position.",
    "Set source.settle: auto, or grant what the error names.",
)

NOT_A_REPLICA = Code(
    2018,
    "not_a_replica",
    DefiniteError,
    Scope.PIPELINE,
    "A limit for the lag of a replica is set, and the server is no replica.",
    "Remove source.max_replica_lag_seconds.",
)

SERVER_ID_TAKEN = Code(
    2019,
    "server_id_taken",
    TransientError,
    Scope.PIPELINE,
    "Another replica or reader uses the same server_id.",
    "Give each reader its own server_id (source.server_ids).",
)

SERVER_ID_INVALID = Code(
    2020,
    "server_id_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A server_id is outside of 1 to 4294967295.",
    "Correct source.server_ids.",
)

TABLE_NAME_CASE = Code(
    2021,
    "table_name_case",
    DefiniteError,
    Scope.TABLE,
    "A name with capitals is not kept everywhere by a server with lower_case_table_names = 2.",
    "Rename the table to lower case, or exclude it.",
)

TABLE_UNREADABLE = Code(
    2022,
    "table_unreadable",
    DefiniteError,
    Scope.TABLE,
    "The user of the source cannot read a table.",
    "GRANT SELECT on the table to the user of the source.",
)

PASSWORD_COMMAND_FAILED = Code(
    2031,
    "password_command_failed",
    TransientError,
    Scope.PIPELINE,
    "The command of the password failed, or did not end.",
    "Execute source.password_command by hand, as the user of the pipeline and with its environment; then run again.",
)

PASSWORD_COMMAND_OUTPUT = Code(
    2032,
    "password_command_output",
    DefiniteError,
    Scope.PIPELINE,
    "The command of the password printed no password.",
    "Let source.password_command print the password alone, on one line.",
)

INIT_COMMAND_REFUSED = Code(
    2033,
    "init_command_refused",
    DefiniteError,
    Scope.PIPELINE,
    "The server refused an initial statement.",
    "Read the server's message in the error; correct source.init_commands, or grant what it needs.",
)

SSH_UNREACHABLE = Code(
    2034,
    "ssh_unreachable",
    TransientError,
    Scope.PIPELINE,
    "The SSH server could not be reached, or the source not from there.",
    "Check host and port of source.ssh from here, and those of source.url from the SSH server; then run again.",
)

SSH_HOST_KEY_UNKNOWN = Code(
    2035,
    "ssh_host_key_unknown",
    DefiniteError,
    Scope.PIPELINE,
    "The SSH server's key is not the one that is known of this host.",
    "Compare the key's fingerprint with the one its administrator gives, and add it to source.ssh_known_hosts.",
)

SSH_REFUSED = Code(
    2036,
    "ssh_refused",
    DefiniteError,
    Scope.PIPELINE,
    "The SSH server refused the login, or to forward to the source.",
    "Have its administrator let the user of source.ssh in by that key, and forward to the host and port of source.url.",
)
