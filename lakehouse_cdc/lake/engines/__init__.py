"""What writes rows into a table and reads them back: two ways to the same table.

- `port`: the contract. `choice`: which engine has a table.
- `direct`: files and commits beside Spark's jobs. `spark`: Spark.
"""
