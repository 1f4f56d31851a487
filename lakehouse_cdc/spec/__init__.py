"""The executable specification: what the product is tested against. The product imports none of it.

- `interleaving`: the core algorithm as a random model: as-of reads beside a log whose transactions become visible late.
- `table_states`: the page of the documentation that is made from the state machine of a table.
"""
