"""`python -m lakehouse_cdc.sql.grammar`: the page of the documentation on how the servers' grammars differ."""

from lakehouse_cdc.sql.grammar.differences import page

print(page(), end="")
