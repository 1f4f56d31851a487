"""What tables hold and say of themselves, for those who only look: by Spark, or, much faster, without it.

- `port`: the contract. `choice`: which reader answers for a table.
- `folder`: tables in folders here, by deltalake and the files themselves. `spark`: all tables.
- `live_files`: the files of a table and their rows. `deletion_vectors`: which rows of a file are deleted.
"""
