"""JSON values and expressions of every kind, for the tests of JSON in row images and in partial updates."""

from __future__ import annotations

from hypothesis import strategies as st

INTEGERS = sorted(
    {sign * (1 << bits) + more for bits in (0, 7, 8, 15, 16, 31, 32, 63) for sign in (-1, 1) for more in (-1, 0, 1)}
    - {-(1 << 63) - 1}
)
EXPRESSIONS = [
    *(f"CAST('{text}' AS JSON)" for text in ("null", "true", "false", "[]", "{}", "[[]]", "-0", "-0.0", '""')),
    *(f"CAST({n} AS JSON)" for n in (*INTEGERS, (1 << 64) - 1)),
    *(f"CAST(CAST({n} AS UNSIGNED) AS JSON)" for n in (0, 65535, 65536, (1 << 32) - 1, 1 << 32)),
    *(f"JSON_ARRAY({n}, {n})" for n in (*INTEGERS, (1 << 64) - 1)),
    f"JSON_ARRAY({', '.join(map(str, INTEGERS))}, REPEAT('x', 70000))",
    "JSON_ARRAY(NULL, TRUE, FALSE, 1.5, 1.5e0, 'a', x'41', b'101', REPEAT('x', 70000))",
    "JSON_ARRAY(1.10, -0.5, .5, 0.0, -0.00, 1/3, 1e0, 100, 100.0, -100.00, 0.000000000000000000000000000001)",
    f"JSON_ARRAY({'9' * 65}, -{'9' * 35}.{'9' * 30}, {'9' * 9}.{'9' * 9}, {'9' * 10}.{'9' * 10})",
    "JSON_ARRAY(TIME'00:00:00', TIME'-09:00:00.5', TIME'100:00:00', TIME'-838:59:59', DATE'2020-01-01')",
    "JSON_ARRAY(TIMESTAMP'2020-01-01 00:00:00', TIMESTAMP'1969-12-31 23:59:59.999999')",
    "JSON_ARRAY(ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('GEOMETRYCOLLECTION EMPTY'))",
    *(f"JSON_ARRAY(REPEAT(x'{byte}', {n}))" for n in (0, 1, 2, 3, 56, 57, 58, 114, 115, 1000) for byte in ("ff", "00")),
    *(f"JSON_ARRAY(REPEAT('é', {n}))" for n in (63, 64, 8191, 8192, 8193, 32767, 1 << 20)),
    "JSON_ARRAY(CONCAT(" + ", ".join(f"CHAR({n} USING utf8mb4)" for n in range(128)) + "))",
    "JSON_OBJECT('', 1, 'b', 2, 'aa', 3, 'A\n\"', CAST('[1, {}]' AS JSON), '日本😀', NULL, REPEAT('k', 65535), 'v')",
]
SCALARS = st.one_of(
    st.none() | st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-70000, 70000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), inner, max_size=6)
    ),
    max_leaves=20,
)
