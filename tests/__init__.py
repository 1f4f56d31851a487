"""The tests. What they run is not taken for a call by `uv run`, which they may be themselves (see `cli.as_called`)."""

import os

os.environ.pop("UV_RUN_RECURSION_DEPTH", None)
