"""The `mysql_cdc` Spark source: snapshot and binlog in one stream of bronze rows, exact at each offset.

The rooms, from the top down; each imports only from those below it:

- `spark`: the data source as Spark sees it; `spark.stream` is the entry point.
- `planning`: which batches there are, and what each one reads.
- `requests`: what a person asks of a running pipeline.
- `ddl`: what statements in the log mean for the captured tables. `reading`: what tasks execute.
- `captured_tables`, `splits`, `bronze_rows`: the tables that match; what one task reads; what it returns.
- `tail`: the driver's reading of the log. `settling`: what is certain about a position.
- `state`: files beside the checkpoint.
- `options`, `retry`, `test_hooks`: the options, retries of transient errors, named moments for tests.
"""
