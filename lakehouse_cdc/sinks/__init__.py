"""What takes committed batches of bronze onward: silver is the first sink.

- `port`: the protocol, with its contract. `stream`: the stream that calls a sink.
- `kafka`: topics of Kafka, `schema_cache`: the schemas that rows were written under.
- `registry`: other sinks, by the names that the configuration gives (`target.sinks`).
"""
