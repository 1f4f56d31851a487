"""Wiring: configuration in, the streams of source, bronze and silver out.

- `pipeline`: the commands of a pipeline. `composition`: its places and session. `repair_runs`: requested re-reads.
- `start`: what is checked before the first batch. `run`: queries, from start to end. `report`: what a run returns.
- `config`: the configuration.
"""
