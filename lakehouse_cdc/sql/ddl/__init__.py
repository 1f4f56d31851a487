"""DDL: what a statement makes of a table's schema, and of its rows."""
