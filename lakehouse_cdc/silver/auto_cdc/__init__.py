"""Silver by AUTO CDC, for declarative pipelines.

- `declarations`: the calls that keep a table as the MERGE would; pure.
- `feed`: the typed streams that AUTO CDC is fed with.
- `schema_eras`: how rows of earlier schemas read as rows of the last one; pure, as SQL.
"""
