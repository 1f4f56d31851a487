"""Bronze into topics of Kafka: each change once for a reader of what is committed.

- `options`: what the configuration says. `progress`: what of bronze is still to be sent, pure.
- `sink`: the sink. `bronze_rows`: the rows in order, and those that a TRUNCATE or a repeated read takes away.
- `file_order`: the order by the files that hold rows. `file_rows`: how tasks read them.
- `task_records`: most rows as records, made by Spark's tasks. `transactions`: where transactions end.
- `delivery`: transactions with their ledger. `topics`: names, and how topics are made. `client`: librdkafka's errors.
- `avro_encoder`: schemas in a registry.

Invariant: a consumer that reads with `isolation.level=read_committed` sees each row of bronze once in `exactly_once`,
and at least once in `at_least_once`; the messages of one key in the order of seq.

Why it holds, for `exactly_once`:

1. The rows of a batch come in one of two orders, which depend on the rows alone, or on the files that the commits
   added (`bronze_rows`); the ledger says in which. So "the first n rows of the commits (a, b]" names the same rows
   whenever they are read.
2. Each Kafka transaction holds a stretch of them and one record of the ledger that says how far it got. Kafka commits
   both or neither.
3. One transactional id stands for the sink. `init_transactions` ends whatever an earlier process left open, by a commit
   where that had been decided and else by an abort, and it fences that process: nothing of it can be committed later
   (KIP-98). Only then the ledger is read, with read_committed and to its end. So it says exactly what is committed.
4. After that the process is the only one that commits, hence what it remembers is what the ledger says. Whenever a
   call's outcome is not known the producer is given up, and 3 begins again.
5. A batch counts as done in Spark's checkpoint after its last transaction, and is repeated until then; what the ledger
   has is left out. Since the ledger names commits of bronze, not batches of Spark, an older checkpoint repeats nothing.

A key has one partition, for the partitioner is a function of the key's bytes, and an idempotent producer keeps the
order of a partition. Guards: tests/sinks/kafka.
"""
