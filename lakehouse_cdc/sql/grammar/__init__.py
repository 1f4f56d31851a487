"""The grammar of the five servers' statements, as data, and the parser that reads it."""
