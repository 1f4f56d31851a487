"""The forms of silver tables, declared one a module, without Spark; `writers` has how each takes a batch.

- `current`: rows as they are now (SCD type 1), deletes removed.
- `soft_deletes`: rows as they are now, deletes marked.
- `history`: every version of a row (SCD type 2).
- `multiset`: rows as they are now of tables without a key, each copy by itself.
- `multiset_history`, `multiset_soft_deletes`: as `history` and `soft_deletes`, of tables without a key.
- `append`: rows that are only ever added, of tables without a key.

Every form object in a module of this folder is registered.
"""

from importlib import import_module
from pkgutil import iter_modules

from lakehouse_cdc.silver.definition.form import Form, register
from lakehouse_cdc.silver.forms.append import APPEND
from lakehouse_cdc.silver.forms.current import CURRENT
from lakehouse_cdc.silver.forms.history import HISTORY
from lakehouse_cdc.silver.forms.multiset import MULTISET
from lakehouse_cdc.silver.forms.soft_deletes import SOFT_DELETES

__all__ = ["APPEND", "CURRENT", "HISTORY", "MULTISET", "SOFT_DELETES"]

for module in iter_modules(__path__, f"{__name__}."):
    if not module.ispkg:
        for form in vars(import_module(module.name)).values():
            if isinstance(form, Form):
                register(form)
