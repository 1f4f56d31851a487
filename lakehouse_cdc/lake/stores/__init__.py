"""How the clients of a kind of store are made: pyarrow's file systems, deltalake's, and obstore's for single objects.

`port` says what is asked of a kind; `s3` and `azure` answer it; `choice` is which of them a URL is of.
"""
