"""Measurements of the project's own parts on this machine; each ends with a check that the result is right."""
