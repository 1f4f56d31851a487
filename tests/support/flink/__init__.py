"""Flink's own readers of messages, run by Java without a cluster; and what a column is in Flink's SQL, by format.

- `reader`: the process, and what it answers. `types`: each column's type there, and its values as bronze has them.
"""
