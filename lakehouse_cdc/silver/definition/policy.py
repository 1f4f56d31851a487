"""What is configured for one silver table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_cdc.silver.definition.form import Form, form_named
from lakehouse_cdc.silver.definition.transform import Transform


@dataclass(frozen=True)
class Policy:
    """What silver keeps of a table, and what it does as the table's schema changes.

    `drops`: it drops the columns that go, else it keeps them. `beside`: a column that gets another type stays as it is,
    beside a new one, else it is rewritten. `freezes`: silver keeps its shape, whatever comes and goes (see
    `column_mapping`). `form` is what it keeps of rows; of every version (SCD type 2), a new one for each change of the
    columns `track` (None: of all). `transform` is what it makes of the source's columns. `properties`: what Delta is
    set as the table is made; `cluster_by`: the columns that its files are clustered by, where it has them.
    """

    drops: bool = False
    beside: bool = False
    freezes: bool = False
    form: Form = field(default_factory=lambda: form_named("current"))
    track: tuple[str, ...] | None = None
    transform: Transform = field(default_factory=Transform)
    properties: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
