"""Result sets over the binary protocol: from the socket to VARIANT images without a Python object for a row."""
