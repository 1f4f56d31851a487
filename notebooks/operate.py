# Databricks notebook source
# MAGIC %md
# MAGIC # Operate: where a pipeline stands, whether it is right, and how to have a table read again
# MAGIC
# MAGIC Give the pipeline's file in the widget `config`, elsewhere in the environment variable `LAKEHOUSE_CDC_CONFIG`;
# MAGIC in the same way `table` (`LAKEHOUSE_CDC_TABLE`) names a table to be read again, such as `shop.orders`.
# MAGIC The pipeline may be running meanwhile. Its source must be reachable from here.

# COMMAND ----------

import os

import matplotlib.pyplot as plt

from lakehouse_cdc import Pipeline


def setting(name: str, default: str) -> str:
    """What the widget of that name says, or, where there are no widgets, the environment."""
    if (dbutils := globals().get("dbutils")) is not None:
        dbutils.widgets.text(name, default)
        return str(dbutils.widgets.get(name))
    return os.environ.get(f"LAKEHOUSE_CDC_{name.upper()}", default)


config = setting("config", "pipeline.yml")
table = setting("table", "")  # empty: no table is asked for
pipeline = Pipeline.from_yaml(config, globals().get("spark"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where does it stand?
# MAGIC The lag is how much of the binlog bronze has still to read.

# COMMAND ----------

status = pipeline.status()
if status.bronze is None:
    print("nothing has been read yet: run the pipeline first")
else:
    print(f"bronze is at {status.bronze.file}:{status.bronze.pos}")
    if status.silver is not None:
        print(f"silver is at {status.silver.file}:{status.silver.pos}")
    if status.lag is not None:
        print(f"behind the source by {status.lag.bytes} bytes, {status.lag.seconds:.0f} s")
    for name, of_table in status.tables.items():
        print(f"{name}: snapshot {of_table.snapshot}, {of_table.bronze_rows} changes, {of_table.silver_rows} rows")

# COMMAND ----------

# MAGIC %md
# MAGIC ## How has it been?
# MAGIC With `metrics: true` each batch leaves a row in `<bronze>.metrics`: how old its last transaction was when it was
# MAGIC in (the lag), and how many rows it took in how many seconds.

# COMMAND ----------

metrics = pipeline.layout.metrics
batches = []
if pipeline.config.target.metrics and status.bronze is not None:
    batches = pipeline.spark.sql(f"SELECT * FROM {metrics.sql} ORDER BY at").collect()
figure, (lags, rates) = plt.subplots(2, 1, sharex=True, figsize=(9, 6), layout="constrained")
for layer, colour in (("bronze", "tab:brown"), ("silver", "tab:gray")):
    of_layer = [batch for batch in batches if batch.layer == layer]
    aged = [batch for batch in of_layer if batch.lag_seconds is not None]
    lags.plot([b["at"] for b in aged], [b.lag_seconds for b in aged], "o-", color=colour, label=layer)
    counted = [batch for batch in of_layer if batch.rows and batch.seconds]
    rates.plot([b["at"] for b in counted], [b.rows / b.seconds for b in counted], "o-", color=colour, label=layer)
lags.set(title="Lag: age of a batch's last transaction when it was in", ylabel="seconds", ylim=(0, None))
rates.set(title="Rows per second, batch by batch", ylabel="rows/s", ylim=(0, None))
for axes in (lags, rates):
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
figure.autofmt_xdate()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is it right?
# MAGIC Row by row against the source, at the position that silver is at. What differs is named.

# COMMAND ----------

report = pipeline.verify()
for compared in report.tables:
    print(f"{compared.table}: {compared.rows} rows at {report.position}, {compared.differing} differ")
    for difference in compared.differences:
        print(f"    {difference}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Have a table read again
# MAGIC It is read beside the stream, by the run that goes on or by the next; what the source does not have is deleted
# MAGIC from silver. So this also mends a table that differs.

# COMMAND ----------

read_again = pipeline.read_again([table]) if table else []
print("to be read again:", ", ".join(read_again) or "nothing was asked for")
