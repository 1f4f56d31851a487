"""The executable specification: what the product is tested against. The product imports none of it.

- `interleaving`: the core algorithm as a random model: as-of reads beside a log whose transactions become visible late.
"""
