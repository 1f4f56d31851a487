"""The source server: sessions, catalog, wire protocol, binlog. Knows nothing of Spark.

The rooms, from the top down; each imports only from those below it:

- `preflight`: what must be true of a server before it is read.
- `catalog`, `object_references`, `uncaptured`, `server`, `key_range`: questions to the server, and SQL for its tables.
- `wire`: result sets as images. `binlog`: the binary log.
- `connection`: sessions. `literals`: values as SQL text.
"""
