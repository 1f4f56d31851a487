"""Wiring: configuration in, the streams of source, bronze and silver out.

- `pipeline`: the commands of a pipeline. `context`: its places and session. `reread_requests`: requested re-reads.
- `start`: what is checked before the first batch. `run`: queries, from start to end. `report`: what a run returns.
- `config`: the configuration.
"""
