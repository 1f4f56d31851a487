"""The first rows of a silver table, written from bronze's files by tasks, without a Spark plan.

- `direct_load`: when this is possible, the job, and its commit.
- `direct_load_task`: one task: row images to columns of a Parquet file.
"""
