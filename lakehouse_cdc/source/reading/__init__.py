"""What tasks execute: each split to bronze rows, the same rows whenever it is executed.

- `task`: which reader a split takes.
- `snapshot_read`, `keyless_snapshot_read`, `key_read`: as-of reads of a key range, a keyless table, some keys.
- `views_of_rows`, `range_of_rows`: of a keyless table, views of which it is known what they hold, and the rows wanted.
- `binlog_read`: a stretch of the binlog. `window`: the stretch that an as-of read rolls back by.
- `log_reader`, `log_batch`, `xa_groups`: the binlog, received and decoded. `spool`: rows kept on disk.
"""
