"""Sphinx: furo, myst, and the API from the docstrings."""

from mirrorax import __version__

project = "mirrorax"
author = "The mirrorax developers"
copyright = "2026, the mirrorax developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = "mirrorax"
html_static_path: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the shapes stand in the text; in types they are not readable
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
