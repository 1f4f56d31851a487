"""The forms of silver tables: one module each, with its declaration and its writer, and what they share.

- `current`: rows as they are now (SCD type 1), deletes removed.
- `soft_deletes`: rows as they are now, deletes marked.
- `history`: every version of a row (SCD type 2).
- `append`: rows that are only ever added, of tables without a key.
- `merge`: the one commit that brings a table to a position.
- `versions`: from the changes of a key to its versions.
- `key_change`: rows that are equal under a new key.
- `incremental_writer`: what the forms share that depend on the order of changes.
"""

from lakehouse_cdc.silver.definition.form import register
from lakehouse_cdc.silver.forms.append import APPEND
from lakehouse_cdc.silver.forms.current import CURRENT
from lakehouse_cdc.silver.forms.history import HISTORY
from lakehouse_cdc.silver.forms.soft_deletes import SOFT_DELETES

__all__ = ["APPEND", "CURRENT", "HISTORY", "SOFT_DELETES"]

for form in (CURRENT, SOFT_DELETES, HISTORY, APPEND):
    register(form)
