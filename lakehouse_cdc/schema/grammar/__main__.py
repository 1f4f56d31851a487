"""`python -m lakehouse_cdc.schema.grammar`: the page of the documentation on how the servers' grammars differ."""

from lakehouse_cdc.schema.grammar.differences import page

print(page(), end="")
