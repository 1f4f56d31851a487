"""Codes 8xxx: the MySQL servers for tests and the demo (lakehouse_cdc.testing)."""

from lakehouse_cdc.errors.tree import Code, DefiniteError, Scope, TransientError

SERVER_BUILD_MISSING = Code(
    8001,
    "server_build_missing",
    DefiniteError,
    Scope.PIPELINE,
    "There is no build of this MySQL or MariaDB version for this platform.",
    "Use a server of yours: --url mysql://user@host:3306.",
)

SERVER_START_FAILED = Code(
    8002,
    "server_start_failed",
    DefiniteError,
    Scope.PIPELINE,
    "A server for tests could not be started.",
    "See the server's log, which the error names.",
)

SERVER_DIRECTORY_UNUSABLE = Code(
    8003,
    "server_directory_unusable",
    DefiniteError,
    Scope.PIPELINE,
    "The directory of a server for tests holds something else, or another server uses it.",
    "Name another directory, or stop what uses it.",
)

PORT_TAKEN = Code(
    8004,
    "port_taken",
    DefiniteError,
    Scope.PIPELINE,
    "The port is taken.",
    "Give another port, or stop what listens there.",
)

PORTS_EXHAUSTED = Code(
    8005,
    "ports_exhausted",
    TransientError,
    Scope.PIPELINE,
    "No free port was found.",
    "Stop servers that listen on these ports, and try again.",
)

PACKAGE_SOURCE_UNUSABLE = Code(
    8006,
    "package_source_unusable",
    DefiniteError,
    Scope.PIPELINE,
    "apt has no usable package source.",
    "Configure a Debian archive in /etc/apt, and run apt-get update.",
)

PACKAGE_DAMAGED = Code(
    8007,
    "package_damaged",
    DefiniteError,
    Scope.PIPELINE,
    "A downloaded package of a server cannot be read.",
    "Try again: it is downloaded once more, since nothing of it was kept.",
)
