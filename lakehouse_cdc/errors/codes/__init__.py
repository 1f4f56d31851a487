"""The registry: each error of the package is declared here once, with its number, name, class, scope and remedy.

A number is never used for another error, and never changes: people search for it. Numbers are in blocks by area:
1xxx configuration, 2xxx server and rights, 3xxx log and positions, 4xxx tables and rows, 5xxx bronze and Delta,
6xxx silver, 7xxx runtime (71xx sinks, 72xx topics), 8xxx servers for tests. docs/reference/errors.md is generated from
these declarations.
Each code is raised somewhere in the package, and nothing is raised without one (tests/errors/test_codes.py).
"""

from lakehouse_cdc.errors.codes.bronze import *  # noqa: F403
from lakehouse_cdc.errors.codes.configuration import *  # noqa: F403
from lakehouse_cdc.errors.codes.log import *  # noqa: F403
from lakehouse_cdc.errors.codes.runtime import *  # noqa: F403
from lakehouse_cdc.errors.codes.server import *  # noqa: F403
from lakehouse_cdc.errors.codes.servers_for_tests import *  # noqa: F403
from lakehouse_cdc.errors.codes.silver import *  # noqa: F403
from lakehouse_cdc.errors.codes.sinks import *  # noqa: F403
from lakehouse_cdc.errors.codes.tables import *  # noqa: F403
