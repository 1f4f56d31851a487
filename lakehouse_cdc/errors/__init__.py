"""The errors of the package: one tree of classes, and one registry of codes.

    CdcError                  base of all; has a code, and says what, where and which hint
    ├── DefiniteError         stays until the user, the data or the source changes: trying again cannot help
    │   ├── ConfigError       wrong use: a command line, a configuration file, an option (exit code 2)
    │   └── TableError        one table cannot continue, the others can: silver sets that table aside
    └── TransientError        may pass by itself: a time-out, a lost connection, a server that restarts

The class decides how the package reacts (try again, stop, set aside); the code says which error it is, and the scope of
the code what it is about. An error is raised through its code, `raise codes.POSITION_PURGED.error(...)`, so that class,
scope and remedy are declared once, in `codes`. Decisions go by class, by code and by `table`, never by text.

Rooms: `tree` (the classes and `Code`), `codes` (the registry, one module for each area), `codec` (across Spark, as
data), `reference` (docs/reference/errors.md). Tests: tests/errors.
"""

from lakehouse_cdc.errors.tree import CdcError, Code, ConfigError, DefiniteError, Scope, TableError, TransientError

__all__ = ["CdcError", "Code", "ConfigError", "DefiniteError", "Scope", "TableError", "TransientError"]
