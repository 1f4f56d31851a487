# Databricks notebook source
# MAGIC %md
# MAGIC # Quickstart: MySQL into bronze and silver, then a look around
# MAGIC
# MAGIC **On your machine** nothing has to be filled in: a real MySQL server is started, and a shop in it is written
# MAGIC to while its tables are read. From a checkout: `uv run python -i notebooks/quickstart.py`, or cell by cell in
# MAGIC an editor.
# MAGIC
# MAGIC **On Databricks** the source is a server of yours, which is only read: fill in the widgets `url`, `password`,
# MAGIC `tables`, `catalog` and `folder` (a folder in a volume), on a cluster that has this package's wheel.
# MAGIC Elsewhere the same settings are environment variables, such as `LAKEHOUSE_CDC_URL`.

# COMMAND ----------

import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from pyspark.sql import functions as F

from lakehouse_cdc import Pipeline
from lakehouse_cdc.testing import MySqlServer, Shop, ShopWriter


def setting(name: str, default: str, label: str) -> str:
    """What the widget of that name says, or, where there are no widgets, the environment."""
    if (dbutils := globals().get("dbutils")) is not None:
        dbutils.widgets.text(name, default, label)
        return str(dbutils.widgets.get(name))
    return os.environ.get(f"LAKEHOUSE_CDC_{name.upper()}", default)


url = setting("url", "", "1 source: mysql://user@host:port")  # empty: a server is started here
password = setting("password", "", "2 password, by reference: ${secret:scope/key}")  # or ${env:NAME}; never itself
tables = setting("tables", "shop.*", "3 tables, by a pattern")
catalog = setting("catalog", "", "4 catalog")  # empty: plain Delta tables below the folder
place = setting("folder", "", "5 folder in a volume")  # empty: a temporary one
rows = int(setting("rows", "20000", "6 rows of the example"))  # how many the shop begins with

if "dbutils" in globals() and not (url and catalog and place):
    raise ValueError("on Databricks, fill in the widgets url, catalog and folder, then run all cells")
folder = Path(place or tempfile.mkdtemp(prefix="lakehouse-cdc-quickstart-")).absolute()

# COMMAND ----------

# MAGIC %md
# MAGIC ## A source
# MAGIC Without a `url`, here is one: MySQL 8.0 in a folder, and a writer whose random transactions continue until it
# MAGIC is stopped: inserts, updates, deletes, changed keys, rollbacks.

# COMMAND ----------

server: MySqlServer | None = None
writer: ShopWriter | None = None
if not url:
    server = MySqlServer.start()
    url = server.url
    shop = Shop(server.connect)
    shop.create()
    print("loaded:", shop.load(rows))
    writer = ShopWriter(shop, rate=20).start()
print("source:", url)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A pipeline
# MAGIC One file says all of it. Checkpoints and tables belong together: keep both or delete both.

# COMMAND ----------

lakehouse = f"catalog: {catalog}\n  checkpoints: {folder}/checkpoints" if catalog else f"path: {folder}/lakehouse"
folder.mkdir(parents=True, exist_ok=True)
config = folder / "pipeline.yml"
config.write_text(
    f"""\
name: quickstart
source:
  url: {url}
  password: "{password}"
  tables: ["{tables}"]
target:
  {lakehouse}
  bronze: quickstart_bronze
  silver: quickstart_silver
  metrics: true
""",
    encoding="utf-8",
)
print(config.read_text(encoding="utf-8"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Run it, twice
# MAGIC The first run reads the tables (`r`) and follows the binlog meanwhile; the second reads what was changed since
# MAGIC (`c`, `u`, `d`). After each, bronze and silver are the source as it was at exactly one position of its binlog.

# COMMAND ----------

pipeline = Pipeline.from_yaml(config, globals().get("spark"))
runs = [pipeline.run(once=True).to_json() for _ in range(2)]
for run in runs:
    print(f"as of {run['position']['file']}:{run['position']['pos']}")
    for name, counts in run["tables"].items():
        print(f"    {name}: {counts}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is it right?
# MAGIC `verify` compares every silver table with the source, row by row, both as they were at one position, while the
# MAGIC writes continue.

# COMMAND ----------

report = pipeline.verify()
for compared in report.tables:
    verdict = "equal" if compared.equal else f"{compared.differing} differ"
    print(f"{compared.table}: {compared.rows} rows at {report.position}, {verdict}")
assert report.verified, "silver differs from the source"

# COMMAND ----------

if writer is not None:
    writer.stop()
    print("written meanwhile:", writer.tally)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Bronze: every change, in order
# MAGIC One append-only table for all source tables. `seq` is a total order; `key`, `before` and `after` are VARIANT.
# MAGIC First: how many operations of each kind every table has (`s` rows hold schemas).

# COMMAND ----------

changes = pipeline.spark.sql(f"SELECT * FROM {pipeline.layout.changes.sql}")
operations = changes.groupBy("source_table", "op").count().orderBy("source_table", "op")
operations.show(100, truncate=False)

KINDS = {
    "r": ("read", "#8b949e"),
    "c": ("inserted", "#2da44e"),
    "u": ("updated", "#1f6feb"),
    "d": ("deleted", "#cf222e"),
}
counts = {(row["source_table"], row["op"]): row["count"] for row in operations.collect()}
names = sorted({name for name, _ in counts}, reverse=True)
figure, axes = plt.subplots(figsize=(9, 1 + 0.5 * len(names)), layout="constrained")
begin = [0] * len(names)
for op, (kind, colour) in KINDS.items():
    widths = [counts.get((name, op), 0) for name in names]
    axes.barh(names, widths, left=begin, color=colour, label=kind)
    begin = [left + width for left, width in zip(begin, widths, strict=True)]
axes.set(title="Rows of bronze by table and operation", xlabel="rows")
axes.xaxis.set_major_formatter("{x:,.10g}")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC Then the life of one row: all changes of the key that changed most, oldest first. Each `before` is the `after`
# MAGIC of the change above it.

# COMMAND ----------

of_rows = changes.where("key IS NOT NULL").withColumn("key", F.expr("to_json(key)"))
busiest = of_rows.groupBy("source_table", "key").count().orderBy(F.desc("count"), "source_table", "key").first()
assert busiest is not None, "the tables have no rows"
history = (
    of_rows.where((F.col("source_table") == busiest["source_table"]) & (F.col("key") == busiest["key"]))
    .orderBy("seq")
    .selectExpr("op", "commit_ts", "position.pos", "to_json(before) AS before", "to_json(after) AS after")
)
print(f"{busiest['source_table']} {busiest['key']}")
history.show(20, truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Silver: the rows as they are
# MAGIC One typed table for each source table. `_seq` and `_commit_ts` say which change made the row what it is.

# COMMAND ----------

silver = pipeline.layout.silver_table(busiest["source_table"])
print(f"{silver}, as of {report.position}")
pipeline.spark.sql(f"SELECT * FROM {silver.sql} ORDER BY {silver.own.seq} DESC").show(5, truncate=False, vertical=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Next
# MAGIC `notebooks/operate.py`, `notebooks/explore.py` and `notebooks/time_travel.py` work on this pipeline. The
# MAGIC server that was started above lives as long as this Python does.

# COMMAND ----------

print(f"LAKEHOUSE_CDC_CONFIG={config}")
