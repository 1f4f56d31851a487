"""What is certain about a position and a server.

- `settled_position`: up to where every transaction is committed and visible to a SELECT.
- `consistent_view`: a read view whose content is proven. `clock_observations`: the server's clock at positions.
- `identity`, `gaps`: whether this is the server, and the log, that an offset speaks of.
"""
