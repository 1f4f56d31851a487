"""Typed tables, one for each source table, kept by MERGE from bronze: rows as they are now, or every version.

Of rows as they are now (SCD type 1) the specification is `model.changelog.fold`. It can be said without an order: a row
exists if its key's change with the greatest seq is not a delete, and that seq is not below the table's barrier, the
greatest seq of a truncation or of the beginning of a repeated snapshot. Both are maxima, so they may be taken in any
order, any number of times. Silver keeps what they need beyond the rows themselves (deleted keys, barriers) in a table
of tombstones beside each silver table.

Versions (SCD type 2, `model.history`) depend on the order, and so does since when a row is gone that is kept (soft
deletes). See `forms.history` and `forms.soft_deletes` for how they come out the same all the same.

A change of a table's schema has its place in the order, too: see `apply.table_applier` and `evolution`.

The rooms, from the top down; each imports only from those below it:

- `apply`: the stream, and the application of one batch to all tables.
- `time_travel`: a table as it was at any seq. `auto_cdc`: the same tables by a declarative pipeline.
- `forms`: the forms of tables, each with what differs by form and with how it takes a batch.
- `table_tasks`: a batch applied to many tables by the tasks of one job, with deltalake in the place of Spark.
- `load`: a table's first rows, written by tasks.
- `tables`: the Delta tables, their properties, tombstones, the ledger.
- `batch`: what a batch of bronze holds, as typed columns. `evolution`: the plan of a schema change.
- `definition`: what a silver table is; pure.

Every form is imported with the package, so that no table is read before its form is registered.
"""

from lakehouse_cdc.silver import forms as forms
