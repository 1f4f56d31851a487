# Databricks notebook source
# MAGIC %md
# MAGIC # Explore: the life of a row, the schemas of its table, its versions, and any moment since
# MAGIC
# MAGIC Give the pipeline's file in the widget `config`, elsewhere by the environment variable `LAKEHOUSE_CDC_CONFIG`;
# MAGIC in the same way `table` (`LAKEHOUSE_CDC_TABLE`) names a source table, such as `shop.orders`. Without one it is
# MAGIC the table with the key that changed most. The pipeline may be running meanwhile; its source is not asked.

# COMMAND ----------

import os
from itertools import accumulate

import matplotlib.pyplot as plt
from pyspark.sql import functions as F

from lakehouse_cdc import Pipeline


def setting(name: str, default: str, label: str) -> str:
    """What the widget of that name says, or, where there are no widgets, the environment."""
    if (dbutils := globals().get("dbutils")) is not None:
        dbutils.widgets.text(name, default, label)
        return str(dbutils.widgets.get(name))
    return os.environ.get(f"LAKEHOUSE_CDC_{name.upper()}", default)


config = setting("config", "pipeline.yml", "1 file of the pipeline")
table = setting(
    "table", "", "2 table (empty: the one that changed most)"
)  # empty: the one with the key that changed most
pipeline = Pipeline.from_yaml(config, globals().get("spark"))
spark = pipeline.spark

# COMMAND ----------

# MAGIC %md
# MAGIC ## The life of a row
# MAGIC All change events of the key that changed most, oldest first, from bronze.

# COMMAND ----------

changes = spark.sql(f"SELECT *, to_json(key) AS of_key FROM {pipeline.layout.changes.sql} WHERE key IS NOT NULL")
wanted = changes.where(F.col("source_table") == table) if table else changes
busiest = wanted.groupBy("source_table", "of_key").count().orderBy(F.desc("count"), "source_table", "of_key").first()
assert busiest is not None, "bronze holds no rows of it"
table = busiest["source_table"]
life = (
    changes.where((F.col("source_table") == table) & (F.col("of_key") == busiest["of_key"]))
    .orderBy("seq")
    .selectExpr("op", "commit_ts", "position.file", "position.pos", "to_json(after) AS after")
)
print(f"{table} {busiest['of_key']}: {busiest['count']} changes")
life.show(20, truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The schemas of its table
# MAGIC Each with the statement that made it (none: as it was first seen), and where it came into force.

# COMMAND ----------

columns = "from_json(schema, 'columns array<struct<name: string>>').columns.name AS columns"
schemas = (
    spark.sql(f"SELECT * FROM {pipeline.layout.schemas.sql}")
    .where(F.col("source_table") == table)
    .orderBy("seq")
    .selectExpr("position.file", "position.pos", "statement", columns)
)
schemas.show(20, truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Its versions
# MAGIC With `scd: 2`, silver keeps every version of a row, from `__START_AT` to `__END_AT` (NULL: it is so now). The
# MAGIC plot shows how many versions had begun and how many rows there were, over time. Without `scd: 2` there is the
# MAGIC row as it is now.

# COMMAND ----------

silver = spark.sql(f"SELECT * FROM {pipeline.layout.silver_table(table).sql}")
keeps_versions = "__END_AT" in silver.columns
if keeps_versions:
    silver.orderBy("__START_AT").show(10, truncate=False, vertical=True)
    starts = silver.selectExpr("__START_AT.commit_ts AS at", "1 AS versions", "1 AS standing")
    ended = silver.where("__END_AT IS NOT NULL")
    ends = ended.selectExpr("__END_AT.commit_ts AS at", "0 AS versions", "-1 AS standing")
    steps = starts.unionAll(ends).groupBy("at").agg(F.sum("versions"), F.sum("standing")).orderBy("at").collect()
    times = [step["at"] for step in steps]
    versions = list(accumulate(step[1] for step in steps))
    standing = list(accumulate(step[2] for step in steps))
    plt.rcParams["date.converter"] = "concise"  # the date is there once, beside the times
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    axes.step(times, versions, where="post", color="tab:blue", label="versions begun")
    axes.step(times, standing, where="post", color="tab:orange", label="rows")
    axes.set(title=f"{table}: rows, and versions of them", ylabel="count", ylim=(0, None))
    axes.set_xlabel("time of commit on the source")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    plt.show()
else:
    print(f"{table} is kept as it is now; set scd: 2 for its versions")
    silver.orderBy(F.desc(pipeline.layout.own.seq)).show(5, truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Any moment since
# MAGIC How far back the table can be had, and why; then the table as the source held it there, beside how it is now.

# COMMAND ----------

reach = pipeline.reach()[table]
assert reach is not None, f"{table} cannot be had as of a moment yet: its snapshot continues"
print(f"{table} can be had from {reach}")
then = pipeline.as_of(table, position=f"{reach.file}:{reach.pos}")
last = spark.sql(f"SELECT position FROM {pipeline.layout.ledger.sql} ORDER BY seq DESC").first()
assert last is not None
now = pipeline.as_of(table, position=f"{last.position.file}:{last.position.pos}")
print(f"{then.count()} rows then, {now.count()} rows now")
same = [name for name in then.columns if name in now.columns]
before, after = (frame.select(F.to_json(F.struct(*same)).alias("row")) for frame in (then, now))
come, gone = after.exceptAll(before), before.exceptAll(after)
print(f"since then {come.count()} rows came or are others by now, {gone.count()} went or were others")
come.show(5, truncate=False)
