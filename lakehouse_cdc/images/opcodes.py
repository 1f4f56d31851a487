"""The words of a program: the fields of its steps and tables, and every way to read a value.

A step says how many bytes a value takes on its wire, and how those bytes become one VARIANT value.
"""

from __future__ import annotations

# A step's fields: how to read, the field's number in the object (-1: excluded), the bytes on the wire (-1: a length
# is in front), the bytes of that length (0: length-encoded), the first byte and the payload bytes to write, the
# most bytes that one byte of the value can become, two arguments, and where in the pool its mask is (0: it has none).
OP, SLOT, FIXED, PREFIX, HEADER, WIDTH, GROWTH, ARG, ARG2, MASK = range(10)
STEP_FIELDS = 10

# A table's fields: its first step, how many; the fields of an image; its first key field in `keys`, how many; where in
# the pool the heads of its images and of its keys are; the column that holds the end of a row's period (-1: the table
# is not versioned), and what that is in current rows (see `rows.versions`).
FIRST, COUNT, SLOTS, KEY_FIRST, KEY_COUNT, HEAD, KEY_HEAD, END, GREATEST = range(9)
TABLE_FIELDS = 9

# How to read a value
NUMBER = 0  # little-endian, extended to WIDTH: with the sign if ARG
# text; ARG: 1 strips trailing spaces, as CHAR does; ARG2: its page in the pool, or of TEXT one of what is below
TEXT, SINGLE, MULTI, MULTI3, UTF16, UTF16LE, UTF32, GB18030 = range(1, 9)
ENUM, SET = 9, 10  # ARG2: the labels in the pool
BINARY = 11  # padded with 0x00 to WIDTH
WIDE = 12  # 64 bits unsigned, as a decimal of 16 bytes and scale 0
DECIMAL_PACKED, DECIMAL_TEXT = 13, 14  # ARG: precision, ARG2: scale
LONG_PACKED, LONG_TEXT = 15, 16  # the same as text, for more digits than a decimal has
BITS = 17  # big-endian
YEAR = 18  # since 1900; as text if ARG
VECTOR, JSON_BINARY = 19, 20
ADDRESS = 21  # ARG: which (see `addresses`)
NULLED = 22  # whatever it is, NULL
DATE_PACKED, DATETIME_PACKED, TIMESTAMP_PACKED, MOMENT_WIRE = 23, 24, 25, 26  # ARG: digits of a second, ARG2: FAIL...
TIME_PACKED, TIME_WIRE = 27, 28
SKIP = 29  # an excluded column
UNKNOWN = 30  # an excluded column, and nobody said how long it is

# What becomes of bytes of a TEXT that are no UTF-8: `?` for each; of any that is not ASCII; an error
REPLACED, ASCII_ALONE, REFUSED = range(3)

# What becomes of a date that no calendar has; AS_TEXT is for every date
FAIL, AS_NULL, AS_TEXT = range(3)
