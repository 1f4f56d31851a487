"""Statements as text: what the SQL of a MySQL or MariaDB server says. Pure: no server is asked.

The rooms, from the top down; each imports only from those below it:

- `ddl`: what a statement makes of a table's schema, and of its rows.
- `references`: which captured tables a statement may change by way of what it writes, reads or calls.
- `statements`: what a statement does to tables; `dml_names`: which names it mentions.
- `grammar`: the grammar of five servers as data, and the parser that interprets it.
- `redaction`, `generated_columns`: constants left out of a text; what a virtual column's expression depends on.
- `lexer`, `words`: a text as tokens.
"""
