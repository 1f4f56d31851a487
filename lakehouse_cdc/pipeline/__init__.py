"""Wiring: configuration in, the streams of source, bronze and silver out."""
