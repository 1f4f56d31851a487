"""Debezium's messages, as its MySQL connector 3.4 writes them through Kafka Connect's converters of JSON and Avro.

- `envelope`: key and value of a message. `source`: where a change comes from. `columns`: a column's values and schema.
- `avro`: the same in Avro. `reader`: the other direction. `values`: a column and its values from a field of a schema.

Sources: Debezium's documentation of its MySQL connector ("Data change events", "Data type mappings"), the classes
`io.debezium.time.*` and `io.debezium.data.*`, `org.apache.kafka.connect.json.JsonConverter`, and the messages of a
running connector (3.4.1.Final, MySQL 8.0).

What is different here, for bronze does not have it, or has it otherwise: in the block `source`, `pos` is the end of the
transaction, not the beginning of the row's event, and `row` counts the rows of the transaction; `server_id` is 0, and
`thread`, `query` and `sequence` are null. A change of a key is d, tombstone and c, as in Debezium, without the headers
`__debezium.newkey` and `__debezium.oldkey`. Defaults of columns are in no schema. Of a `d` whose row is not known
`before` is null, or, without schemas, has the key's columns and null in all others: some readers refuse a `d` without.
"""
