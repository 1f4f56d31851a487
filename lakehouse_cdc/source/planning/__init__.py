"""Which batches there are, and what each one reads: decided in the driver, and stored before anything is read.

- `planner`: where the next batch ends. `first_offset`: where the first one begins.
- `batch_pacing`: when a batch is offered. `chunks`, `throttle`: how far snapshots move in it.
- `new_tables`: tables that are captured from now on. `split_plan`: the splits between two offsets.
"""
