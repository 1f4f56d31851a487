"""A draft for the source as it is: what can be captured, and what `doctor` says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakehouse_cdc.draft.pipeline_file import Draft
from lakehouse_cdc.draft.survey import survey
from lakehouse_cdc.mysql.connection.session import connect
from lakehouse_cdc.mysql.preflight.settings import Finding
from lakehouse_cdc.pipeline.config.source_options import connection_options
from lakehouse_cdc.pipeline.pipeline import Pipeline


def examined(draft: Draft, password: str | None) -> tuple[Draft, list[Finding]]:
    """The draft with what the source holds, and the findings; `password` is the reference to ask with.

    Tables that the first run would refuse are left out. Raises ConfigError for what was given, DefiniteError or
    TransientError where the source cannot be asked, and DefiniteError where no table can be captured.
    """
    with connect(connection_options(draft.config(password), Path.cwd())) as session:
        draft = replace(draft, survey=survey(session, draft.patterns))
    while True:
        draft.survey.require_some()
        findings = Pipeline(draft.config(password)).doctor()
        refused = {f.name: f.what for f in findings if f.severity == "error" and f.name in draft.survey.tables}
        if not refused:
            return draft, findings
        draft = replace(draft, survey=draft.survey.without(refused))
