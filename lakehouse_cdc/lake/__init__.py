"""Delta tables and Spark checkpoints, as bronze, silver and verify use them. Knows nothing of MySQL.

- `readers`: what tables hold and say of themselves, by Spark or without it, for those who only look.
- `engines`: what writes rows into a table, and reads them. `direct`: files written and committed without a Spark job.
- `versions`: rows of whole commits. `commits`: commits that happen once, with a note. `tables`: tables of ours.
- `files`: small files beside tables, in a folder or a bucket. `checkpoint`: Spark's checkpoints.
- `spark_errors`: what failures of Spark and Delta are.
- `failpoints`: before and after each commit, for tests.
- `delta_log`: what the log of a table says of it. `opened`: what deltalake says. `table_state`: what that is.
- `commit_log`: commits as the files of the log have them.
- `checksum`: what the log keeps of each version. `ownership`: whose a table is.
- `object_store`: objects of a store, and what is done to tables there beside Delta.
- `cleanup`: what a crash leaves.
"""
