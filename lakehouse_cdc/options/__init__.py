"""The options of the source and the keys of `pipeline.yml`: how each is declared, once, and what is made from that.

The rooms, from the top down; each imports only from those below it:

- `connection`: how the source is reached, from its options.
- `source`: the options of the `mysql_cdc` source, with those that `pipeline.yml` has too.
- `kafka`: how brokers are reached, and topics as a source.
- `storage`: how an object store of tables is reached.
- `declaration`: an option as the field of a class; a section of the file is such a class.
- `nested`: lists and maps. `kinds`: what values an option can have, in YAML, as text, and in a JSON schema.
- `secrets`: references to secrets.

The keys that only the file has (`target`, and silver's under `tables`) are declared in `pipeline.config.model`, which
has the whole table: silver and sinks, whose names they check, are above this package.
"""
