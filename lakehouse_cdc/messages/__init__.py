"""A change as a message: the bytes that Debezium, Canal, Maxwell and Flink would write for it. Pure.

- `change`: what is written of, and what a message is. `texts`: values as pieces of JSON, shared by the formats.
- `debezium`, `canal`, `maxwell`, `changelog`, `flat`: a format each. `formats`: all of them by name.
"""
