"""Configuration of Sphinx for the documentation site; `build.py` puts the pages together and calls it."""

import importlib.metadata

project = "einmap"
author = "the einmap authors"
copyright = author  # noqa: A001 - Sphinx reads this name
version = release = importlib.metadata.version("einmap")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
# YAML with templates is shown as YAML.
suppress_warnings = ["misc.highlighting_failure"]

root_doc = "index"
html_theme = "furo"
html_title = f"einmap {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style, pygments_dark_style = "friendly", "monokai"

# Docstrings write names between single backticks.
default_role = "code"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
