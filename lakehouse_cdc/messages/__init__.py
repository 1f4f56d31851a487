"""A change as a message: the bytes that Debezium, Canal, Maxwell and Flink would write for it, written and read. Pure.

- `change`: what is written of, and what a message is. `texts`: values as pieces of JSON, shared by the formats.
- `debezium`, `canal`, `maxwell`, `changelog`, `flat`: a format each. `formats`: all of them by name.
- `reading`: what a message says, or why it cannot be read. `debezium.reader`, `canal_reader`, `maxwell_reader`: of a
  format each. `printed`: values as MySQL's programs print them.
"""
