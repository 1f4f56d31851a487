"""Codes 71xx: what takes bronze onward, Kafka among it; 72xx: topics as a source."""

from lakehouse_cdc.errors.tree import Code, ConfigError, DefiniteError, Scope, TableError, TransientError

MESSAGE_FORM_UNFIT = Code(
    7101,
    "message_form_unfit",
    TableError,
    Scope.TABLE,
    "A format of messages cannot carry the columns of a table.",
    "Exclude the column that the error names, or choose another format for the sink.",
)

KAFKA_UNAVAILABLE = Code(
    7102,
    "kafka_unavailable",
    TransientError,
    Scope.PIPELINE,
    "The brokers cannot be reached, or cannot take records now.",
    "Check bootstrap_servers, and that the brokers run and have replicas in sync; a run tries again.",
)

KAFKA_ACCESS_REFUSED = Code(
    7103,
    "kafka_access_refused",
    DefiniteError,
    Scope.PIPELINE,
    "The brokers refuse the user, or TLS fails.",
    "Check security, mechanism, username, password and ca, and the user's rights on topics, transactional ids and "
    "groups.",
)

KAFKA_FENCED = Code(
    7104,
    "kafka_fenced",
    DefiniteError,
    Scope.PIPELINE,
    "Another process has begun to write for the same sink; nothing of this one counts since then.",
    "End the other run of this pipeline, and run again.",
)

KAFKA_RECORD_TOO_LARGE = Code(
    7105,
    "kafka_record_too_large",
    DefiniteError,
    Scope.ROW,
    "A message is larger than the producer, or the topic, takes.",
    "Raise max.message.bytes of the topic, and message.max.bytes under producer of the sink; or exclude the column.",
)

KAFKA_TOPIC_UNUSABLE = Code(
    7106,
    "kafka_topic_unusable",
    DefiniteError,
    Scope.PIPELINE,
    "A topic is missing, cannot be created, or refuses the records.",
    "Correct topic, partitions, replication and topic_settings of the sink, or create the topic; of a table without a "
    "key it cannot be compacted.",
)

KAFKA_LEDGER_LOST = Code(
    7107,
    "kafka_ledger_lost",
    DefiniteError,
    Scope.PIPELINE,
    "The ledger of a sink does not say how far it has got.",
    "Restore the topic; or run once with delivery: at_least_once, which may repeat the last batch.",
)

KAFKA_SETTING_REFUSED = Code(
    7108,
    "kafka_setting_refused",
    ConfigError,
    Scope.PIPELINE,
    "The client of Kafka, or a broker, refuses a setting.",
    "Correct the setting that the error names, under producer or security of the sink, or under source.kafka.",
)

SCHEMA_REGISTRY_UNAVAILABLE = Code(
    7109,
    "schema_registry_unavailable",
    TransientError,
    Scope.PIPELINE,
    "The schema registry of a sink cannot be reached, or cannot answer now.",
    "Check registry and registry_ca of the sink, and that the registry runs; a run tries again.",
)

SCHEMA_REGISTRY_REFUSED = Code(
    7110,
    "schema_registry_refused",
    DefiniteError,
    Scope.PIPELINE,
    "The schema registry refuses the user, or a schema that is not compatible with the subject's ones.",
    "Check registry_username and registry_password; for a schema, set the compatibility of the subject that the error "
    "names to what its readers need, NONE at the least, and run again.",
)

TOPIC_MISSING = Code(
    7201,
    "topic_missing",
    DefiniteError,
    Scope.PIPELINE,
    "A topic that is to be read is not there.",
    "Correct source.kafka.topics, or create the topic.",
)

TOPIC_RECORDS_LOST = Code(
    7202,
    "topic_records_lost",
    DefiniteError,
    Scope.PIPELINE,
    "The brokers no longer have messages that were not read yet, or the topic was made again.",
    "Have what was lost written to the topic again; then lakehouse-cdc reset --keep-tables -c pipeline.yml, and run: "
    "it begins with the first message that there is. Rows that come after newer ones of their partition are then dead "
    "letters, which lakehouse-cdc dead-letters retry -c pipeline.yml takes.",
)

NOT_OF_TOPICS = Code(
    7203,
    "not_of_topics",
    ConfigError,
    Scope.PIPELINE,
    "The command asks something of a server, and the pipeline reads topics; or of topics, and it reads a server.",
    "Have the program that writes the topics do it; lakehouse-cdc dead-letters list -c pipeline.yml shows what was set "
    "aside.",
)
