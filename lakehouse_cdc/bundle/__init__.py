"""A Databricks bundle for the user's own tables: written from a live source, and its last runs."""
