"""Decimals, doubles, dates and times: the server's forms to those of VARIANT and of JSON text."""
