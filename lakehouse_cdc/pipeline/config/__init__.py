"""The configuration: its `model`, the `file` it is read from, secrets by reference, and the options of the source."""
