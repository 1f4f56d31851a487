"""Which batches there are, and what each one reads: decided in the driver, and stored before anything is read.

- `planner`: where the next batch ends. `log_progress`: how far the log is read in it, and what DDL does there.
- `first_offset`: where the first batch begins. `connections`: what is kept open meanwhile.
- `batch_pacing`: when a batch is offered. `chunks`, `throttle`: how far snapshots move in it.
- `new_tables`: tables that are captured from now on. `reconfigured`: tables that the configuration treats otherwise.
- `split_plan`: the splits between two offsets.
"""
