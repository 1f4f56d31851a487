"""Compiled code: bytes of the server to VARIANT images, and those back to columns, without Python objects.

Knows neither Spark nor Delta nor a connection. The rooms, from the top down; each imports only from those below it:

- `build`: makes the library of kernels that is shipped. `ahead`: uses it; numba compiles what it has not.
- `warm`: compiles or loads all of it before the first row waits for it.
- `rows`: row images of the binlog and of result sets to VARIANT objects. `typed`: VARIANT objects to Arrow columns.
- `program`: per table, what is done with each value, as plain arrays of `opcodes`.
- `binlog`: the first pass over binlog events, which finds rows without reading them.
- `text`, `numbers`, `hashing`, `strings`: values of each kind.
- `layout`, `extents`: where values lie in a row image. `buffers`, `bytes_io`, `status`, `compiled`, `intrinsics`,
  `sizes`, `digest`: ground.
"""
