"""VARIANT images back to typed Arrow columns, by a table's schema."""
