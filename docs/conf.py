"""How the documentation is built: `uv run sphinx-build -W docs <folder>`."""

project = "lakehouse-cdc"
author = "The lakehouse-cdc authors"
copyright = f"2026, {author}"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design", "sphinxcontrib.mermaid"]
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
exclude_patterns = ["conf.py"]
nitpicky = True
