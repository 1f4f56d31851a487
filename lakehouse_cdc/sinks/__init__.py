"""What takes committed batches of bronze onward: silver is the first sink.

- `port`: the protocol, with its contract. `stream`: the stream that calls a sink.
- `registry`: the sinks besides silver, by the names that the configuration gives (`target.sinks`).
"""
