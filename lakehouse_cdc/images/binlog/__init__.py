"""The first pass over binlog events: headers, transactions, table maps, compressed events, framing of packets."""
