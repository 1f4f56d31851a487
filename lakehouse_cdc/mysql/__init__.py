"""The source server: sessions, the wire protocol, the binlog. Knows nothing of Spark."""
