"""Compressed transactions (`events`) and MariaDB's compressed columns (`columns`), expanded before rows are decoded."""
