# Databricks notebook source
# MAGIC %md
# MAGIC # Time travel: a mistake on the source, and every row as it was before it
# MAGIC
# MAGIC All tables of a pipeline can be read as the source had them after any of its transactions. This notebook shows
# MAGIC it by an example.
# MAGIC
# MAGIC **With a pipeline of yours**, fill in the widget `config` (its file), and `table`, such as `shop.orders`. The
# MAGIC notebook only reads it; the pipeline may be running meanwhile.
# MAGIC **Without one**, on your own machine, a small bank is made on a MySQL server of its own, with a mistake in it.
# MAGIC
# MAGIC | widget | meaning |
# MAGIC |---|---|
# MAGIC | `config` | the pipeline's file; empty: the example |
# MAGIC | `table` | the source table; empty: the one that changed last |
# MAGIC | `amount` | a column of numbers, whose sum is drawn; empty: the number of rows is |
# MAGIC | `moments` | how many transactions to look at, the newest ones |
# MAGIC
# MAGIC Where there are no widgets, the settings are environment variables, such as `LAKEHOUSE_CDC_CONFIG`.

# COMMAND ----------

import os
import tempfile
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
from pyspark.sql import functions as F

from lakehouse_cdc import Pipeline
from lakehouse_cdc.testing import MySqlServer


def setting(name: str, default: str, label: str) -> str:
    """What the widget of that name says, or, where there are no widgets, the environment."""
    if (dbutils := globals().get("dbutils")) is not None:
        dbutils.widgets.text(name, default, label)
        return str(dbutils.widgets.get(name))
    return os.environ.get(f"LAKEHOUSE_CDC_{name.upper()}", default)


config = setting("config", "", "1 file of the pipeline")
table = setting("table", "", "2 table (empty: the last one that changed)")
amount = setting("amount", "", "3 column to add up (empty: count rows)")
moments = int(setting("moments", "8", "4 how many transactions"))
if "dbutils" in globals() and not config:
    raise ValueError("on Databricks, fill in the widget config, then run all cells")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The example
# MAGIC A bank of four accounts. Two transfers are right. Then somebody forgets the WHERE of an UPDATE, and the bank
# MAGIC does not notice at once: two more transfers follow. One run of the pipeline reads all of it, so no batch ends
# MAGIC where the mistake is.

# COMMAND ----------

server: MySqlServer | None = None
if not config:
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-cdc-time-travel-"))
    server = MySqlServer.start()
    config, table, amount = str(folder / "pipeline.yml"), "bank.accounts", "balance"
    Path(config).write_text(
        f"name: bank\nsource: {{url: '{server.url}', tables: ['bank.*']}}\n"
        "target: {path: ./lakehouse, bronze: bank_bronze, silver: bank_silver}\n",
        encoding="utf-8",
    )
    opened = [
        "CREATE DATABASE bank",
        "CREATE TABLE bank.accounts (id INT PRIMARY KEY, owner VARCHAR(20), balance DECIMAL(10,2))",
        "INSERT INTO bank.accounts VALUES (1, 'Ada', 700), (2, 'Ben', 250), (3, 'Cleo', 40), (4, 'Dan', 10)",
    ]
    written = [
        "UPDATE bank.accounts SET balance = balance + IF(id = 1, -100, 100) WHERE id IN (1, 3)",
        "UPDATE bank.accounts SET balance = balance + IF(id = 2, -50, 50) WHERE id IN (2, 4)",
        "UPDATE bank.accounts SET balance = 5",  # and no WHERE
        "UPDATE bank.accounts SET balance = balance + IF(id = 1, -1, 1) WHERE id IN (1, 2)",
        "DELETE FROM bank.accounts WHERE id = 3",
    ]
    example = Pipeline.from_yaml(config, globals().get("spark"))
    with closing(server.connect(autocommit=True)) as connection, connection.cursor() as cursor:
        for statements in (opened, written):
            for statement in statements:
                cursor.execute(statement)
            example.run(once=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The transactions
# MAGIC Bronze has every change with the transaction that made it. These are the newest ones that changed the table:
# MAGIC where each ends in the binlog, its GTID, and what it did. Each of them is a moment that can be asked for.

# COMMAND ----------

pipeline = Pipeline.from_yaml(config, globals().get("spark"))
spark = pipeline.spark
changes = spark.sql(f"SELECT * FROM {pipeline.layout.changes.sql}").where("op IN ('c', 'u', 'd', 't')")
if not table:
    last_change = changes.orderBy(F.desc("seq")).first()
    assert last_change is not None, "no table has changed since it was read: there is only one moment"
    table = last_change["source_table"]
transactions = (
    changes.where(F.col("source_table") == table)
    .groupBy("position.file", "position.pos", "position.gtid", "commit_ts")
    .agg(F.max("seq").alias("seq"), F.count("*").alias("changes"), F.sort_array(F.collect_set("op")).alias("ops"))
    .orderBy(F.desc("seq"))
    .limit(moments)
    .orderBy("seq")
)
transactions.show(moments, truncate=False)
places = [(row["file"], row["pos"]) for row in transactions.collect()]
first = pipeline.reach()[table]
if first is not None and len(places) < moments:
    places.insert(0, (first.file, first.pos))  # from where on the table can be had
assert len(places) > 1, f"{table} has changed too little: there is only one moment"

# COMMAND ----------

# MAGIC %md
# MAGIC ## The table at each moment
# MAGIC `pipeline.as_of(table, position="FILE:POS")` is the table after that transaction. It also takes `gtid=` and
# MAGIC `timestamp=`. The plot shows one figure of the table at each moment: a mistake can often be seen.

# COMMAND ----------

figure_of = F.sum(F.col(amount)).cast("double") if amount else F.count("*").cast("double")
named = f"sum of {amount}" if amount else "number of rows"
at_each = [pipeline.as_of(table, position=f"{file}:{pos}") for file, pos in places]
figures = [(row[0] if (row := frame.agg(figure_of).first()) else None) or 0.0 for frame in at_each]
steps = [abs(later - earlier) for earlier, later in pairwise(figures)]
suspect = steps.index(max(steps)) + 1  # the moment after the largest step

figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
axes.step(range(len(figures)), figures, where="post", color="#1f6feb", linewidth=2)
axes.plot(range(len(figures)), figures, "o", color="#1f6feb", clip_on=False)
at = ([suspect], [figures[suspect]])
axes.scatter(*at, s=120, facecolors="none", edgecolors="#cf222e", linewidths=2, clip_on=False, zorder=3)
late = suspect > len(figures) / 2  # its words are on the side that has room for them
axes.annotate(
    f"largest step: {figures[suspect - 1]:,.10g} to {figures[suspect]:,.10g}",
    (suspect, figures[suspect]),
    xytext=(-14 if late else 14, 12),
    textcoords="offset points",
    ha="right" if late else "left",
    color="#cf222e",
)
files = ["", *(file for file, _ in places)]
labels = [str(pos) if file == last else f"{file}:{pos}" for last, (file, pos) in zip(files, places, strict=False)]
axes.set_xticks(range(len(places)), labels, fontsize=8, rotation=30, ha="right")
axes.yaxis.set_major_formatter("{x:,.10g}")
axes.set(title=f"{table} as of each transaction", xlabel="end of the transaction (FILE:POS)", ylabel=named)
axes.margins(x=0.05, y=0.15)
axes.set_ylim(bottom=min(0, *figures))
axes.grid(alpha=0.3)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# COMMAND ----------

# MAGIC %md
# MAGIC ## What that transaction did
# MAGIC The table before and after it, compared row by row. Nothing of it depends on clocks.

# COMMAND ----------

before, after = at_each[suspect - 1], at_each[suspect]
own = {pipeline.layout.own.seq, pipeline.layout.own.commit_ts}
shared = [name for name in before.columns if name in after.columns and name not in own]
# VARIANT columns cannot be compared as they are, so each is compared as its text
plain = [F.expr(f"to_json(struct(`{name.replace('`', '``')}`))").alias(name) for name in shared]
were, became = before.select(plain), after.select(plain)
lost, new = were.exceptAll(became), became.exceptAll(were)
print(f"as of {places[suspect - 1][0]}:{places[suspect - 1][1]} these rows were otherwise, or are gone since:")
lost.show(10, truncate=False)
print(f"as of {places[suspect][0]}:{places[suspect][1]} they are:")
new.show(10, truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC ## All tables at that moment
# MAGIC A mistake seldom stays in one table. `all_as_of` reads all of them at the same moment, so joins between them
# MAGIC are right. As views, they can be used from SQL.

# COMMAND ----------

together = pipeline.all_as_of(position=f"{places[suspect - 1][0]}:{places[suspect - 1][1]}")
for name, frame in together.items():
    view = "then_" + "".join(letter if letter.isalnum() else "_" for letter in name)
    frame.createOrReplaceTempView(view)
    print(f"{name}: {frame.count()} rows, as the view {view}")

# COMMAND ----------

# MAGIC %md
# MAGIC ## How far back
# MAGIC A moment that cannot be had exactly is refused with the reason. `reach` says from where on each table can be
# MAGIC had.

# COMMAND ----------

reach = pipeline.reach()
for name, since in reach.items():
    print(f"{name}: {'not yet, its snapshot continues' if since is None else f'from {since} on'}")
if server is not None:
    server.stop()
