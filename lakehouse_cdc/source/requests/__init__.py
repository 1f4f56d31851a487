"""What a person asks of a running pipeline: files beside its schemas (`requests`), and re-reads of keys (`repairs`)."""
