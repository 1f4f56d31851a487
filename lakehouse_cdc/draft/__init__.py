"""A pipeline's file, drafted for the tables of a live source: `lakehouse-cdc init`, and the bundles of Databricks.

`survey` looks at the source, `pipeline_file` is the text, `examine` has both judged by `doctor`, `files` writes.
"""
