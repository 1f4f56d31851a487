"""The options of the `mysql_cdc` source. Most are keys of `pipeline.yml` too, under `source` or `tables.<pattern>`.

- `Tuning`: the same value in both.
- `Server`: which server and tables; secrets are references in the file, and values as options.
- `SourceConfig`: these two, and what a run makes of failures: `source` in the file; or topics in place of a server.
- `CapturedTable`: keys under `tables.<pattern>`; as an option, each is a JSON object of pattern: value.
- `Places`: options that the pipeline sets, and the file does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from lakehouse_cdc.model.start_point import StartValue
from lakehouse_cdc.mysql.connection.tls import MODES, Tls
from lakehouse_cdc.options.declaration import NEVER, NEXT_RUN, REREAD, Keys, Section, option
from lakehouse_cdc.options.kafka import Topics
from lakehouse_cdc.options.kinds import Choice, Integer, Mask, SecretReference, StartPlace, Text, Url
from lakehouse_cdc.options.measures import Bytes, Seconds
from lakehouse_cdc.options.nested import ListOf, MapOf
from lakehouse_cdc.options.secrets import Secret
from lakehouse_cdc.schema.column_choice import GeneratedColumns
from lakehouse_cdc.schema.representation import TypeMap, ZeroDates

Snapshot = Literal["initial", "never", "only"]
OnGap = Literal["fail", "resnapshot"]
OnFailover = Literal["refuse", "follow"]
SchemaChanges = Literal["evolve", "freeze", "stop"]
OnError = Literal["reread", "quarantine", "stop"]
Settle = Literal["auto", "gtid", "process", "snapshot", "age"]
CarriedAs = Literal["text", "native"]

COLUMNS = ListOf(Text())
_OF_TOPICS = ("kafka", "retry_seconds")


def start_contradiction(start: StartValue | None, snapshot: Snapshot) -> str:
    """Why a start does not go with what is read of existing rows; '' where it does. None: that of the pipeline."""
    if start in (None, "now") or snapshot == "never":
        return ""
    return f"start is where changes begin that no snapshot is under; it needs snapshot: never, not {snapshot}"


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What the file and the source's options say in the same words."""

    snapshot: Snapshot = option(
        Choice[Snapshot](get_args(Snapshot)),
        "`initial`: existing rows, then changes; `never`: changes only; `only`: existing rows only",
        default="initial", spark="snapshot", changes=NEXT_RUN,
    )  # fmt: skip
    start: StartValue = option(
        StartPlace(),
        "with `snapshot: never`, where the changes begin: at the end of the log; with the oldest event that the server"
        " has; with the first transaction of a time; at a position; or after what a GTID set holds",
        default="now", spark="start", changes=NEVER,
    )  # fmt: skip
    on_gap: OnGap = option(
        Choice[OnGap](get_args(OnGap)),
        "when the binlog was purged or reset before it was read: `fail`, or `resnapshot` all tables in a new epoch",
        default="fail", spark="onGap", changes=NEXT_RUN,
    )  # fmt: skip
    on_failover: OnFailover = option(
        Choice[OnFailover](get_args(OnFailover)),
        "when the server is another one than before: `refuse`, or `follow` it where GTIDs prove that its log continues"
        " just what was read",
        default="refuse", spark="onFailover", changes=NEXT_RUN,
    )  # fmt: skip
    settle: Settle = option(
        Choice[Settle](get_args(Settle)),
        "how a position is proven settled: by `gtid`, the `process` list, a consistent `snapshot` (MariaDB), or its"
        " `age`; `auto` takes the first that works",
        default="auto", spark="settle", changes=NEXT_RUN,
    )  # fmt: skip
    settle_seconds: float = option(
        Seconds(), "how old a position must be under `settle: age`",
        default=10.0, spark="settleSeconds", changes=NEXT_RUN,
    )  # fmt: skip
    chunk_bytes: int = option(
        Bytes(), "size of a snapshot chunk, approximately, as the server stores its rows",
        default=32 << 20, spark="chunkBytes", changes=NEXT_RUN,
    )  # fmt: skip
    chunk_rows: int | None = option(
        Integer("rows"), "size of a snapshot chunk, instead of `chunk_bytes`",
        default=None, spark="chunkRows", changes=NEXT_RUN,
    )  # fmt: skip
    chunks_per_trigger: int = option(
        Integer("chunks"), "snapshot chunks in one micro-batch", default=64, spark="chunksPerTrigger", changes=NEXT_RUN
    )
    plan_seconds: float = option(
        Seconds(),
        "how long the planning of one micro-batch looks for the boundaries of chunks; what is left is planned in the"
        " next one",
        default=10.0, spark="planSeconds", changes=NEXT_RUN,
    )  # fmt: skip
    split_bytes: int | None = option(
        Bytes(), "size of the piece of binlog that one task reads",
        default=None, otherwise="by the length of the batch", spark="splitBytes", changes=NEXT_RUN,
    )  # fmt: skip
    max_rows_per_trigger: int | None = option(
        Integer("rows"), "rows in one micro-batch, to the next transaction",
        default=None, otherwise="no limit", spark="maxRowsPerTrigger", changes=NEXT_RUN,
    )  # fmt: skip
    max_bytes_per_trigger: int = option(
        Bytes(), "bytes of binlog in one micro-batch, to the next transaction",
        default=1 << 30, spark="maxBytesPerTrigger", changes=NEXT_RUN,
    )  # fmt: skip
    idle_seconds: float = option(
        Seconds(),
        "while no captured table changes: a batch that only moves the position is made at most this often",
        default=30.0, spark="idleSeconds", changes=NEXT_RUN,
    )  # fmt: skip
    max_threads_running: int | None = option(
        Integer("threads"),
        "a snapshot waits while more threads execute a command on the server (`Threads_running`, the pipeline's own"
        " among them): no chunk for `plan_seconds`, then one. Changes are followed as ever",
        default=None, otherwise="no limit", spark="maxThreadsRunning", changes=NEXT_RUN,
    )  # fmt: skip
    max_replica_lag_seconds: float | None = option(
        Seconds(), "the same while the source, where it is a replica, lags its own source by more",
        default=None, otherwise="no limit", spark="maxReplicaLagSeconds", changes=NEXT_RUN,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Server(Keys):
    """Which server and which tables, and how values are carried."""

    url: str = option(
        Url(),
        "`mysql://user@host:port`; of several servers of one replication group: a list of such, or hosts with commas",
        spark="url", changes=NEXT_RUN,
    )  # fmt: skip
    password: Secret = option(
        SecretReference(),
        "the user's password: `${env:NAME}`, `${file:/path}` or `${secret:scope/key}` (Databricks)",
        default=Secret(""), otherwise="empty", spark="password", changes=NEXT_RUN,
    )  # fmt: skip
    password_command: tuple[str, ...] | None = option(
        ListOf(Text(), least=1, commas=False),
        "a program and its arguments, which prints the password, such as a token of a cloud; `{host}`, `{port}` and"
        " `{user}` are replaced. It is executed where a connection is opened, without a shell, and its output is never"
        " shown. See [Connect to the source](../guides/connect-to-the-source.md)",
        default=None, otherwise="`password`", spark="passwordCommand", changes=NEXT_RUN,
    )  # fmt: skip
    password_seconds: float = option(
        Seconds(), "for how long a process uses for further connections what the command printed",
        default=60.0, spark="passwordSeconds", changes=NEXT_RUN,
    )  # fmt: skip
    tables: tuple[str, ...] = option(
        ListOf(Text(), least=1),
        "patterns on `database.table`, globs; `!` excludes, and always wins. A name that holds a dot is in backticks",
        spark="tables", changes=NEXT_RUN,
    )  # fmt: skip
    tls: Tls = option(
        Choice[Tls](MODES), "as `--ssl-mode` of the mysql client", default="preferred", spark="tls", changes=NEXT_RUN
    )
    tls_ca: str | None = option(
        Text(), "PEM file with the authorities for the last two modes of `tls`",
        default=None, otherwise="the system's", spark="tlsCa", changes=NEXT_RUN,
    )  # fmt: skip
    tls_cert: str | None = option(
        Text(), "PEM file with the client's certificate, for an account that requires one",
        default=None, otherwise="none", spark="tlsCert", changes=NEXT_RUN,
    )  # fmt: skip
    tls_key: Secret = option(
        SecretReference(), "the PEM text of its private key, by reference, such as `${file:/path/client-key.pem}`",
        default=Secret(""), otherwise="none", spark="tlsKeySecret", changes=NEXT_RUN,
    )  # fmt: skip
    tls_key_password: Secret = option(
        SecretReference(), "the password of that key, by reference",
        default=Secret(""), otherwise="none", spark="tlsKeyPassword", changes=NEXT_RUN,
    )  # fmt: skip
    init_commands: tuple[str, ...] = option(
        ListOf(Text(), commas=False),
        "statements that each session begins with: `SET ROLE`, `SET RESOURCE GROUP`, and `SET` of variables that change"
        " no result",
        default=(), spark="initCommands", changes=NEXT_RUN,
    )  # fmt: skip
    ssh: str | None = option(
        Text(r"ssh://[^:/?#@\s]+@(?:[^:/?#@,\[\]\s]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?", "ssh://user@host:port"),
        "`ssh://user@host:port`: an SSH server through which the source is reached; the host of `url` is as that server"
        " knows it. It needs the extra `ssh`",
        default=None, otherwise="the source is reached from here", spark="ssh", changes=NEXT_RUN,
    )  # fmt: skip
    ssh_key: Secret = option(
        SecretReference(), "the text of the private key for the SSH server, by reference",
        default=Secret(""), otherwise="`ssh_password`", spark="sshKeySecret", changes=NEXT_RUN,
    )  # fmt: skip
    ssh_key_password: Secret = option(
        SecretReference(), "the password of that key, by reference",
        default=Secret(""), otherwise="none", spark="sshKeyPassword", changes=NEXT_RUN,
    )  # fmt: skip
    ssh_password: Secret = option(
        SecretReference(), "the user's password at the SSH server, by reference",
        default=Secret(""), otherwise="`ssh_key`", spark="sshPassword", changes=NEXT_RUN,
    )  # fmt: skip
    ssh_known_hosts: str | None = option(
        Text(), "file with the SSH server's host key, as OpenSSH's `known_hosts`; the key is always checked",
        default=None, otherwise="`~/.ssh/known_hosts`", spark="sshKnownHosts", changes=NEXT_RUN,
    )  # fmt: skip
    zero_dates: ZeroDates = option(
        Choice[ZeroDates](get_args(ZeroDates)),
        "dates that no calendar has (0000-00-00, 2024-02-31): `fail` on the first; make them `null`; or carry all dates"
        " as `text`",
        default="fail", spark="zeroDates", changes=REREAD,
    )  # fmt: skip
    generated: GeneratedColumns = option(
        Choice[GeneratedColumns](get_args(GeneratedColumns)),
        "generated columns that have no value to capture (virtual ones that depend on the session, and all where the"
        " server leaves them out of its log): `skip` them, or `fail`, which quarantines their table",
        default="skip", spark="generated", changes=NEXT_RUN,
    )  # fmt: skip
    type_map: TypeMap = option(
        Choice[TypeMap](get_args(TypeMap)),
        "`lakeflow`: DATETIME, YEAR and JSON are text, as in Lakeflow Connect (TIME, ENUM and SET always are)",
        default="native", spark="typeMap", changes=REREAD,
    )  # fmt: skip
    mask_salt: Secret = option(
        SecretReference(), "the secret of `hash` masks, by reference, 16 characters or more",
        default=Secret(""), otherwise="none", spark="maskSecret", changes=NEVER,
    )  # fmt: skip
    server_ids: str | None = option(
        Text(r"[0-9]+-[0-9]+", "FIRST-LAST, such as 6000-6063"),
        "replica ids for the readers: a range that nobody else uses",
        default=None, otherwise="10,000 of the pipeline's own", spark="serverIds", changes=NEXT_RUN,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SourceConfig(Tuning, Server):
    """`source`: where the rows are read, a server or topics."""

    url: str = option(
        Url(),
        "`mysql://user@host:port`; of several servers of one replication group: a list of such, or hosts with commas."
        " Or `${connection:NAME}`, a connection of Unity Catalog. This and `tables`, or `kafka`",
        default="", otherwise="required without `kafka`", spark="url", changes=NEXT_RUN,
    )  # fmt: skip
    tables: tuple[str, ...] = option(
        ListOf(Text(), least=1),
        "patterns on `database.table`, globs; `!` excludes, and always wins. A name that holds a dot is in backticks",
        default=(), otherwise="required without `kafka`", spark="tables", changes=NEXT_RUN,
    )  # fmt: skip
    kafka: Topics | None = option(
        Section(Topics), "topics with changes, in place of `url` and of all that is about a server",
        default=None, otherwise="none", changes=NEVER,
    )  # fmt: skip

    json_rules: ClassVar = (
        {  # a start in the past is one of changes alone
            "anyOf": [
                {"properties": {"start": {"const": "now"}}},
                {"required": ["snapshot"], "properties": {"snapshot": {"const": "never"}}},
            ]
        },
        {  # a server, or topics
            "anyOf": [
                {"required": ["url", "tables"], "properties": {"kafka": {"type": "null"}}},
                {
                    "required": ["kafka"],
                    "properties": {"kafka": {"type": "object"}},
                    "propertyNames": {"enum": [*_OF_TOPICS]},
                },
            ]
        },
    )

    def contradiction(self) -> str:
        if self.kafka is not None:
            other = next((name for name in self.given if name not in _OF_TOPICS), "")
            return f"{other} is of a server, and kafka reads topics" if other else ""
        if missing := [name for name in ("url", "tables") if not getattr(self, name)]:
            return f"give url and tables (a server) or kafka (topics): {missing[0]} is missing"
        return start_contradiction(self.start, self.snapshot)

    retry_seconds: float = option(
        Seconds(),
        "for how long a run whose server cannot be reached, whose disk is full, or whose machine is too busy, tries"
        " again, after pauses that grow to a minute; counted from the last batch",
        default=4 * 3600.0, changes=NEXT_RUN,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CapturedTable(Keys):
    """`tables.<pattern>`, as far as the source reads it."""

    exclude: tuple[str, ...] = option(
        COLUMNS, "columns left out of bronze and silver", default=(), spark="exclude", changes=REREAD
    )
    include: tuple[str, ...] | None = option(
        COLUMNS,
        "only these columns, and the primary key's; new columns of the source are left out. The last pattern with it"
        " decides",
        default=None, otherwise="all", spark="include", changes=REREAD,
    )  # fmt: skip
    masks: dict[str, Any] = option(
        MapOf(Mask(), names="column"),
        "what of a value is written to bronze: nothing (`null`), its HMAC (`hash`), or some characters at its ends",
        default={}, spark="masks", changes=REREAD,
    )  # fmt: skip
    types: dict[str, CarriedAs] = option(
        MapOf(Choice[CarriedAs](get_args(CarriedAs)), names="column"),
        "`text` carries a column as text, `native` by its own type whatever `source` says",
        default={}, spark="types", changes=REREAD,
    )  # fmt: skip
    key: tuple[str, ...] | None = option(
        ListOf(Text()),
        "the columns (NOT NULL) that identify a row of a table without a primary key; no two rows may have the same."
        " `[]`: nothing does",
        default=None, otherwise="the primary key, else the first UNIQUE index that can be one",
        spark="keys", changes=REREAD,
    )  # fmt: skip
    schema_changes: SchemaChanges = option(
        Choice[SchemaChanges](get_args(SchemaChanges)),
        "`evolve`; `freeze` the columns of silver; `stop` the stream before a change. The last pattern with it decides",
        default="evolve", spark="schemaChanges", changes=NEXT_RUN,
    )  # fmt: skip
    on_error: OnError = option(
        Choice[OnError](get_args(OnError)),
        "when rows cannot be followed: `reread` the table where that makes it exact, with growing pauses, else"
        " quarantine it; `quarantine` it until `signal snapshot`; `stop` the stream. The last pattern with it decides",
        default="reread", spark="onError", changes=NEXT_RUN,
    )  # fmt: skip
    start: StartValue | None = option(
        StartPlace(),
        "with `snapshot: never`, where the table's changes begin, if not where `source.start` says. It counts for the"
        " pipeline's first run. The last pattern with it decides",
        default=None, otherwise="`source.start`", spark="starts", changes=NEVER,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Places:
    """What the pipeline passes to the source, besides the file."""

    schema_folder: str = option(
        Text(),
        "folder for the schemas and other files beside the checkpoint, or a place in a store; a stream requires it",
        default="", spark="schemaFolder", changes=NEVER,
    )  # fmt: skip
    storage: Secret = option(
        SecretReference(),
        "where `schemaFolder` is in a store: how that is reached, as JSON of `target.storage`, the keys among that",
        default=Secret(""), otherwise="as the environment says", spark="storageSecret", changes=NEXT_RUN,
    )  # fmt: skip
    as_of: str = option(
        Text(), "of a batch read: the offset to read the tables at", default="", spark="asOf", changes=NEXT_RUN
    )
    files_to: str = option(
        Text(), "folder of a change table: tasks write its files there, and return one line for each",
        default="", spark="filesTo", changes=NEXT_RUN,
    )  # fmt: skip
    splits: str = option(
        Text(), "of a batch read: what tasks are to read, as the process that plans the stream passes it on",
        default="", spark="splits", changes=NEXT_RUN,
    )  # fmt: skip
