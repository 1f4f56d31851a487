"""Codes 71xx: what takes bronze onward, Kafka among it."""

from lakehouse_cdc.errors.tree import Code, Scope, TableError

MESSAGE_FORM_UNFIT = Code(
    7101,
    "message_form_unfit",
    TableError,
    Scope.TABLE,
    "A format of messages cannot carry the columns of a table.",
    "Exclude the column that the error names, or choose another format for the sink.",
)
