"""What a value becomes as its column gets another type: the same, or what is said for the others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakehouse_cdc.silver.definition.casts import carried_over

OTHERS = "'does not fit'"


@pytest.mark.parametrize(
    ("held", "wanted", "values"),
    [
        ("string", "int", {"'5'": "5", "'05'": None, "'x'": None, "NULL": "NULL"}),
        ("int", "smallint", {"5": "5", "70000": None, "NULL": "NULL"}),
        ("double", "decimal(4,1)", {"2.5D": "2.5", "2.55D": None, "1e9D": None}),
        ("string", "variant", {"'{\"a\": 1}'": '{"a":1}', "'null'": "null", "'{'": None, "NULL": "NULL"}),
        ("variant", "string", {"parse_json('[1]')": "[1]", "CAST(NULL AS VARIANT)": "NULL"}),
        ("binary", "int", {"X'01'": None, "CAST(NULL AS BINARY)": "NULL"}),
    ],
)
def test_the_way_back_gives_the_same_again(
    spark: SparkSession, held: str, wanted: str, values: dict[str, str | None]
) -> None:
    for value, becomes in values.items():
        otherwise = f"CAST(raise_error({OTHERS}) AS {wanted})"
        shown = "to_json(v)" if wanted == "variant" else "CAST(v AS STRING)"
        query = f"SELECT coalesce({shown}, 'NULL') AS v FROM (SELECT {carried_over('h', held, wanted, otherwise)} AS v"
        rows = spark.sql(f"{query} FROM (SELECT CAST({value} AS {held}) AS h))")
        if becomes is None:
            with pytest.raises(Exception, match="does not fit"):
                rows.collect()
        else:
            assert rows.collect()[0].v == becomes, value
