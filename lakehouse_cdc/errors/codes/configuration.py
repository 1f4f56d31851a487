"""Codes 1xxx: the configuration, the command line, and what they name."""

from lakehouse_cdc.errors.tree import Code, ConfigError, DefiniteError, Scope, TableError

OPTION_INVALID = Code(
    1001,
    "option_invalid",
    ConfigError,
    Scope.PIPELINE,
    "An option of the source has a value that it cannot have.",
    "Correct the option; the error names the values that are allowed.",
)

OPTION_UNKNOWN = Code(
    1002,
    "option_unknown",
    ConfigError,
    Scope.PIPELINE,
    "The source has no option of this name.",
    "Correct the name of the option, or remove it.",
)

OPTION_MISSING = Code(
    1003,
    "option_missing",
    ConfigError,
    Scope.PIPELINE,
    "An option that the source needs is not set.",
    "Set the option.",
)

CONFIG_FILE_UNREADABLE = Code(
    1004,
    "config_file_unreadable",
    ConfigError,
    Scope.PIPELINE,
    "The configuration file cannot be read.",
    "Name the file with -c, and check that this user may read it.",
)

CONFIG_FILE_INVALID = Code(
    1005,
    "config_file_invalid",
    ConfigError,
    Scope.PIPELINE,
    "The configuration file is not YAML, or a setting in it is wrong.",
    "Correct the setting that the error names; see the reference of the configuration.",
)

SETTING_INVALID = Code(
    1006,
    "setting_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A --set on the command line does not name a setting or its value.",
    "Write it as --set source.url=mysql://cdc@db.",
)

SETTINGS_CONTRADICT = Code(
    1007,
    "settings_contradict",
    ConfigError,
    Scope.PIPELINE,
    "Two settings exclude each other, or none of two is given.",
    "Give exactly one of the two settings that the error names.",
)

SECRET_UNREADABLE = Code(
    1008,
    "secret_unreadable",
    ConfigError,
    Scope.PIPELINE,
    "A secret cannot be read from its environment variable, file or secret scope.",
    "Set the secret at the place that the error names, readable for the user of the pipeline.",
)

URL_INVALID = Code(
    1009,
    "url_invalid",
    ConfigError,
    Scope.PIPELINE,
    "The URL of the source cannot be understood.",
    "Write it as mysql://user@host:port.",
)

PASSWORD_IN_URL = Code(
    1010,
    "password_in_url",
    ConfigError,
    Scope.PIPELINE,
    "The URL of the source contains a password.",
    "Remove it from the URL, and set source.password.",
)

TLS_SETTING_INVALID = Code(
    1011,
    "tls_setting_invalid",
    ConfigError,
    Scope.PIPELINE,
    "The settings of TLS are wrong or exclude each other.",
    "Correct source.tls and source.tls_ca; tls_ca needs tls: verify-ca or verify-identity.",
)

TLS_AUTHORITY_UNREADABLE = Code(
    1012,
    "tls_authority_unreadable",
    ConfigError,
    Scope.PIPELINE,
    "The file of certificate authorities cannot be read, or holds no certificate.",
    "Let source.tls_ca name a PEM file with certificates.",
)

SELECTION_INVALID = Code(
    1013,
    "selection_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A pattern of source.tables does not name tables, or there is none.",
    'Write patterns as database.table, such as "shop.orders", "shop.*" or "!shop.audit". A name that holds a dot is in'
    " backticks.",
)

SELECTION_UNMATCHED = Code(
    1014,
    "selection_unmatched",
    DefiniteError,
    Scope.PIPELINE,
    "No table of the source matches a pattern of source.tables.",
    "Check the spelling of the pattern, or GRANT SELECT on the tables to the user of the source.",
)

COLUMN_CHOICE_UNMATCHED = Code(
    1015,
    "column_choice_unmatched",
    ConfigError,
    Scope.PIPELINE,
    "A setting names a column that no captured table has.",
    "Correct the name of the column, or remove it from the setting.",
)

KEY_DECLARATION_INVALID = Code(
    1016,
    "key_declaration_invalid",
    ConfigError,
    Scope.TABLE,
    "The key that is declared for a table cannot be the key of its rows.",
    "Let tables.NAME.key name columns of the table that are never NULL, or remove it.",
)

TYPE_CHOICE_INVALID = Code(
    1017,
    "type_choice_invalid",
    ConfigError,
    Scope.TABLE,
    "A column cannot be represented in the way that is configured.",
    "Correct tables.NAME.types.",
)

COMMAND_MISUSED = Code(
    1018,
    "command_misused",
    ConfigError,
    Scope.PIPELINE,
    "The command does not take these arguments.",
    "See the command's --help.",
)

DRAFT_SETTING_INVALID = Code(
    1019,
    "draft_setting_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A pipeline's file, or a bundle, cannot be made of what was given on the command line.",
    "Correct the option that the error names; lakehouse-cdc init --help and lakehouse-cdc bundle init --help say what "
    "each takes.",
)

DRAFT_PLACE_UNUSABLE = Code(
    1020,
    "draft_place_unusable",
    ConfigError,
    Scope.PIPELINE,
    "Files that are drafted or made for the user cannot be written, or are there already.",
    "Name another place.",
)

BUNDLE_NOT_DEPLOYED = Code(
    1021,
    "bundle_not_deployed",
    ConfigError,
    Scope.PIPELINE,
    "The workspace has no job or pipeline of this bundle.",
    "Deploy the bundle first (databricks bundle deploy).",
)

MOMENT_INVALID = Code(
    1022,
    "moment_invalid",
    ConfigError,
    Scope.PIPELINE,
    "A moment is not written as a position, a time with its zone or a GTID.",
    "Write it as FILE:POS, as 2026-01-31T12:00:00+00:00 or as uuid:42.",
)

TABLE_UNKNOWN = Code(
    1023,
    "table_unknown",
    ConfigError,
    Scope.TABLE,
    "The pipeline does not capture the table that a command names.",
    "Name a captured table, as DATABASE.TABLE.",
)

SILVER_NOT_CONFIGURED = Code(
    1024,
    "silver_not_configured",
    ConfigError,
    Scope.PIPELINE,
    "The command needs silver tables, and this pipeline keeps none.",
    "Name a schema as target.silver, or use the command on bronze.",
)

TARGET_UNWRITABLE = Code(
    1025,
    "target_unwritable",
    ConfigError,
    Scope.PIPELINE,
    "The folder of the pipeline cannot be written.",
    "Choose another folder under target, or let this user write to it.",
)

PACKAGE_MISSING = Code(
    1026,
    "package_missing",
    ConfigError,
    Scope.PIPELINE,
    "A Python package that the command needs is not installed.",
    "Install the extra of lakehouse-cdc that the error names.",
)

MASK_SALT_INVALID = Code(
    1027,
    "mask_salt_invalid",
    ConfigError,
    Scope.PIPELINE,
    "Masking by hash has no salt, or one that cannot be used.",
    "Set source.mask_salt to a secret of the length that the error names.",
)

VACUUM_WITH_SINKS = Code(
    1028,
    "vacuum_with_sinks",
    ConfigError,
    Scope.PIPELINE,
    "Vacuum would delete files of bronze that a sink may not have read.",
    "Run maintain without vacuum, or remove the sinks from target.sinks.",
)

SILVER_NAME_AMBIGUOUS = Code(
    1029,
    "silver_name_ambiguous",
    TableError,
    Scope.TABLE,
    "Another source table has the name of this one's silver table.",
    "Set tables.<pattern>.silver_name for it, and run again.",
)

TRANSFORM_INVALID = Code(
    1030,
    "transform_invalid",
    ConfigError,
    Scope.TABLE,
    "A silver table cannot be created with the configured rename, computed, filter or metadata.",
    "Correct these settings of the table, and run again.",
)

SILVER_NAME_UNUSABLE = Code(
    1031,
    "silver_name_unusable",
    TableError,
    Scope.TABLE,
    "The catalog takes no table of the name that the silver table would have.",
    "Set tables.<pattern>.silver_name for it, and run again.",
)

TLS_CERTIFICATE_UNREADABLE = Code(
    1041,
    "tls_certificate_unreadable",
    ConfigError,
    Scope.PIPELINE,
    "The client's certificate or its key cannot be read, or they do not belong together.",
    "Let source.tls_cert name a PEM file, and source.tls_key be a reference to the PEM text of its private key.",
)

PASSWORD_COMMAND_MISSING = Code(
    1042,
    "password_command_missing",
    ConfigError,
    Scope.PIPELINE,
    "The command of the password cannot be executed.",
    "Give source.password_command as a list, [program, argument, ...], with a program that is installed, and on the"
    " PATH, of every machine that reads the source.",
)

INIT_COMMAND_INVALID = Code(
    1043,
    "init_command_invalid",
    ConfigError,
    Scope.PIPELINE,
    "An initial statement could change what the session reads.",
    "Leave it out of source.init_commands, which takes SET ROLE, SET RESOURCE GROUP, and SET of the variables that the"
    ' guide "Connect to the source" lists.',
)

SSH_SETTING_INVALID = Code(
    1044,
    "ssh_setting_invalid",
    ConfigError,
    Scope.PIPELINE,
    "The settings of the SSH tunnel are wrong or incomplete.",
    "Write source.ssh as ssh://user@host:port, and give source.ssh_key or source.ssh_password, and"
    " source.ssh_known_hosts, as the error says.",
)
