"""What lies beside the checkpoint: immutable files, written before an offset names them.

- `state_store`: schemas and other state by their digest. `offset_codec`: offsets as Spark stores them.
- `stream_start`: what a checkpoint belongs to. `planned_configuration`: what a batch was planned under.
- `table_settings`: what that configuration said of tables, and what another one makes of it.
"""
