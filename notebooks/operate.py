# Databricks notebook source
# MAGIC %md
# MAGIC # Operate: where a pipeline is, how it has been, whether it is right, and what to do about it
# MAGIC
# MAGIC | widget | meaning |
# MAGIC |---|---|
# MAGIC | `config` | the pipeline's file |
# MAGIC | `hours` | how far back the plots go |
# MAGIC | `verify` | `yes`: compare silver with the source, which reads all of both |
# MAGIC | `action` | `look`: change nothing; `read again`: have `table` read again; `pause`, `resume` |
# MAGIC | `table` | for `read again`: a table, such as `shop.orders`, or a pattern |
# MAGIC
# MAGIC Where there are no widgets, the settings are environment variables, such as `LAKEHOUSE_CDC_CONFIG`.
# MAGIC The pipeline may be running meanwhile. Its source must be reachable from here.

# COMMAND ----------

import os

import matplotlib.pyplot as plt

from lakehouse_cdc import Pipeline


def setting(name: str, default: str, label: str, choices: tuple[str, ...] = ()) -> str:
    """What the widget of that name says, or, where there are no widgets, the environment."""
    if (dbutils := globals().get("dbutils")) is None:
        return os.environ.get(f"LAKEHOUSE_CDC_{name.upper()}", default)
    if choices:
        dbutils.widgets.dropdown(name, default, list(choices), label)
    else:
        dbutils.widgets.text(name, default, label)
    return str(dbutils.widgets.get(name))


config = setting("config", "pipeline.yml", "1 file of the pipeline")
hours = float(setting("hours", "24", "2 hours in the plots"))
verify = setting("verify", "yes", "3 compare with the source", ("yes", "no"))
action = setting("action", "look", "4 action", ("look", "read again", "pause", "resume"))
table = setting("table", "", "5 table to read again")
pipeline = Pipeline.from_yaml(config, globals().get("spark"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where is it?
# MAGIC The lag is how much of the binlog bronze has still to read. A table that is quarantined is not followed: the
# MAGIC reason is named, and what to do.

# COMMAND ----------

status = pipeline.status()
if status.bronze is None:
    print("nothing has been read yet: run the pipeline first")
else:
    print(f"bronze is at {status.bronze.file}:{status.bronze.pos}")
    if status.silver is not None:
        print(f"silver is at {status.silver.file}:{status.silver.pos}")
    if status.lag is not None:
        print(status.lag.sentence)
    if status.retention is not None:
        print(status.retention.sentence)
    for name, of_table in status.tables.items():
        print(f"{name}: snapshot {of_table.snapshot}, {of_table.bronze_rows} changes, {of_table.silver_rows} rows")
        if of_table.quarantined:
            print(f"    QUARANTINED: {of_table.quarantined}")
    if status.last_error is not None:
        print(f"the last run ended by an error: {status.last_error}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## How has it been?
# MAGIC With `target.metrics: true` each batch leaves a row in `<bronze>.metrics`.
# MAGIC
# MAGIC - **Lag**: how old a batch's last transaction was when the batch was in the table.
# MAGIC - **Rows per second**: the rows of a batch by the seconds that it took.
# MAGIC - **Seconds**: how long a batch took. If that grows with the time, look at `maintain`.

# COMMAND ----------

batches = []
if pipeline.config.target.metrics and status.bronze is not None:
    since = f"current_timestamp() - INTERVAL '{int(hours * 3600)}' SECOND"
    of_batches = f"layer IN ('bronze', 'silver') AND at >= {since}"
    of_metrics = f"SELECT * FROM {pipeline.layout.metrics.sql} WHERE {of_batches} ORDER BY at"
    batches = pipeline.spark.sql(of_metrics).collect()
print(f"{len(batches)} batches in the last {hours:g} hours")

plt.rcParams["date.converter"] = "concise"  # the date is there once, beside the times
figure, (lags, rates, times) = plt.subplots(3, 1, sharex=True, figsize=(10, 8), layout="constrained")
for layer, colour in (("bronze", "#a05a2c"), ("silver", "#5b7083")):
    of_layer = [batch for batch in batches if batch.layer == layer]
    aged = [batch for batch in of_layer if batch.lag_seconds is not None]
    lags.plot([b["at"] for b in aged], [b.lag_seconds for b in aged], "o-", markersize=3, color=colour, label=layer)
    counted = [batch for batch in of_layer if batch.rows and batch.seconds]
    at = [b["at"] for b in counted]
    rates.plot(at, [b.rows / b.seconds for b in counted], "o-", markersize=3, color=colour, label=layer)
    took = [batch for batch in of_layer if batch.seconds is not None]
    times.plot([b["at"] for b in took], [b.seconds for b in took], "o-", markersize=3, color=colour, label=layer)
lags.set(title="Lag: age of a batch's last transaction when it was in", ylabel="seconds", ylim=(0, None))
rates.set(title="Rows per second, batch by batch", ylabel="rows/s", ylim=(0, None))
times.set(title="Seconds that a batch took", ylabel="seconds", ylim=(0, None), xlabel="time")
for axes in (lags, rates, times):
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter("{x:,.10g}")
lags.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
figure.align_ylabels()
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which tables change?
# MAGIC How many rows of bronze each table brought in that time.

# COMMAND ----------

changed: dict[str, int] = {}
for batch in batches:
    if batch.layer == "bronze":
        for name, count in (batch.tables or {}).items():
            changed[name] = changed.get(name, 0) + count
busiest = sorted(changed.items(), key=lambda one: one[1])[-15:]
if busiest:
    bars, of_tables = plt.subplots(figsize=(10, 0.5 + 0.4 * len(busiest)), layout="constrained")
    drawn = of_tables.barh([name for name, _ in busiest], [count for _, count in busiest], color="#1f6feb")
    of_tables.bar_label(drawn, labels=[f"{count:,}" for _, count in busiest], padding=4)
    of_tables.set(title=f"Rows of bronze by table, last {hours:g} hours", xlabel="rows")
    of_tables.xaxis.set_major_formatter("{x:,.10g}")
    of_tables.margins(x=0.12)
    of_tables.spines[["top", "right"]].set_visible(False)
    plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is it right?
# MAGIC Row by row against the source, at the position that silver is at. What differs is named.

# COMMAND ----------

report = None
if verify == "yes":
    report = pipeline.verify()
    for compared in report.tables:
        print(f"{compared.table}: {compared.rows} rows at {report.position}, {compared.differing} differ")
        for difference in compared.differences:
            print(f"    {difference}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Do something
# MAGIC `read again`: the table is read beside the stream, by the run that is there or by the next one, and what the
# MAGIC source does not have is deleted from silver. So this repairs a table that differs, and takes up one that is
# MAGIC quarantined.
# MAGIC `pause`: a run that follows the source stops reading until `resume`.

# COMMAND ----------

read_again: list[str] = []
if action == "read again":
    if not table:
        raise ValueError("fill in the widget table: which table is to be read again?")
    read_again = pipeline.read_again([table])
elif action == "pause":
    pipeline.signals.pause()
elif action == "resume":
    pipeline.signals.resume()
print("to be read again:", ", ".join(read_again) or "nothing was asked for")
print("paused" if pipeline.signals.paused else "not paused")
