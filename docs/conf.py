"""How the documentation is built: `uv run sphinx-build -W docs <folder>`."""

project = "lakehouse-cdc"
author = "The lakehouse-cdc authors"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = project
exclude_patterns = ["conf.py"]
nitpicky = True
