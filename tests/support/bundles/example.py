"""The project's own bundle, `bundles/`: what the templates make for an example.

`uv run python -m tests.support.bundles.example` writes it.
"""

from __future__ import annotations

from lakehouse_cdc.bundle.files import CLOUDS, Package, Plan
from lakehouse_cdc.draft.pipeline_file import Draft
from lakehouse_cdc.draft.survey import Survey
from tests.support.bundles.declared import BUNDLE

_UUID = "5b1d6c1e-6f0e-4c53-9d3c-0f1a5f2b7a10"
_WAREHOUSE = "Serverless Starter Warehouse"


def example() -> Plan:
    """A shop on AWS."""
    target = Plan.target("main", "shop_cdc", "shop_bronze", "shop_silver")
    url, password = "mysql://cdc@mysql.example.com:3306", Plan.password("shop")
    draft = Draft("shop", url, password, "required", ("shop.*",), target, Survey({}))
    return Plan(draft, "shop_cdc", Package.built(), CLOUDS["aws"], _UUID, _WAREHOUSE, "shop")


if __name__ == "__main__":
    for name, text in example().files().items():
        path = BUNDLE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
