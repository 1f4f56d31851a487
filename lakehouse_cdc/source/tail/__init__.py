"""The driver's own reading of the binlog's end: positions, transactions and statements, no rows.

- `log_tail`: where transactions end, and which statements concern captured tables.
- `text_mentions`, `text_guard`: names in statements logged as text. `xa_history`: open XA transactions.
"""
