"""Typed tables, one for each source table, kept as the row is now (SCD type 1) by MERGE from bronze.

The specification is `model.changes.fold`. It can be said without an order: a row stands if its key's change with the
greatest seq is not a delete, and that seq is not below the table's barrier, the greatest seq of a truncation or of the
beginning of a repeated snapshot. Both are maxima, so they may be taken in any order, any number of times. Silver keeps
what they need beyond the rows themselves (deleted keys, barriers) in a table of tombstones beside each silver table.

A change of a table's schema is the one thing that has its place in the order: see `keeper` and `evolution`.
"""
