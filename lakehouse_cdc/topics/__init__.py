"""Topics of Kafka as the source of bronze: the changes that Debezium, Canal or Maxwell have written there.

- `stream`: the stream, and how it reaches the brokers. `batch`: what becomes of a micro-batch. `retry`: letters tried
  once more.
- `parsing`: messages to rows, in Spark's tasks. `letters`: the table of what was set aside.
- `eras`: which rows are of which schema. `schema_changes`: what a change of names and types says of older rows.
- `order`: the seq of a row, and how far each partition has come. `declared`: types that the configuration gives.
- `brokers`: whether they answer, and what topics there are.

What is guaranteed, and why: docs/guides/read-from-kafka.md; the argument is in `batch`.
"""
