"""How the documentation is built: `uv run sphinx-build -W docs <folder>`.

Diagrams are written as Mermaid, which code hosts draw by themselves. Here they are drawn as the site is built, so that
a page shows them without a network and without a script.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import mmdr
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

project = "lakehouse-cdc"
author = "The lakehouse-cdc authors"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = project
html_logo = html_favicon = "_static/mark.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": True,
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#1b4f8f", "color-brand-content": "#1b5fb0"},
    "dark_css_variables": {"color-brand-primary": "#8ab8f5", "color-brand-content": "#8ab8f5"},
}
html_show_sourcelink = False
html_copy_source = False
smartquotes = False  # a command in a sentence is copied as it is typed
exclude_patterns = ["conf.py"]
nitpicky = True


# words on an arrow, which are grey by default, and may be wider than they were taken to be
LABELS = ".merman-foreignobject-fallback rect { fill: #fff; stroke: #fff; stroke-width: 8px; }"


class Diagram(SphinxDirective):
    """A block of Mermaid as a picture among the site's."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        drawn = mmdr.Diagram("\n".join(self.content)).svg().replace("</style>", LABELS + "</style>", 1)
        name = f"diagram-{hashlib.sha256(drawn.encode()).hexdigest()[:16]}.svg"
        folder = Path(self.env.app.outdir, "_images")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(drawn, encoding="utf-8")
        up = "../" * self.env.docname.count("/")
        picture = f'<a href="{up}_images/{name}"><img class="diagram" alt="diagram" src="{up}_images/{name}"></a>'
        return [nodes.raw("", picture, format="html")]


def setup(app: Any) -> None:
    """Sphinx calls it."""
    app.add_directive("mermaid", Diagram)
