"""Sessions of the server: how it is reached (`session`), TLS, and what its error numbers mean."""
