"""The binary log: received over the replication protocol, indexed in a first pass without decoding rows."""
