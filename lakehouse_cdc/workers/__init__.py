"""Python processes of a local Spark session that start fast: imports are done once, and processes are forked from it.

- `launcher`: the programs that a session is given. `launch_program`: what Spark starts in place of Python.
- `fork_server`: the process that it asks for a copy. `daemon`: the parent of Spark's workers. `preload`: their imports.
"""
