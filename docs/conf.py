"""Sphinx: furo, myst, and the API from the docstrings."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext.napoleon import Config, GoogleDocstring

from mirrorax import __version__

project = "mirrorax"
author = "The mirrorax developers"
copyright = "2026, the mirrorax developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "mirrorax"
html_static_path: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the shapes stand in the text; in types they are not readable
default_role = "code"  # in docstrings, too, backticks mean code


def _inline(writer, node):
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


_SECTIONS = Config(napoleon_attr_annotations=False)


def _sections(app, what, name, obj, options, lines):
    """Read "Args:" and the like; not in attributes, where a colon is only a colon."""
    if what in ("function", "method", "class", "exception"):
        lines[:] = GoogleDocstring(lines, _SECTIONS, app, what, name, obj, options).lines()


def setup(app):
    """Write formulas as MathML, which browsers show by themselves: no script, no network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _sections)
