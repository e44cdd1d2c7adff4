"""Sphinx: furo, myst, and the API from the docstrings."""

import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml
from PIL import Image
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
html_static_path = ["static"]
html_css_files = ["pages.css"]

autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the shapes stand in the text; in types they are not readable
default_role = "code"  # in docstrings, too, backticks mean code


def _mathml(tex, **options):
    """Return MathML with the spaces around log and the like that LaTeX sets."""
    text, space = latex2mathml.tex2mathml(tex, **options), '<mspace width="0.17em"/>'
    name = r"(?:<msub>\s*)?<mi>(?:log|ln|exp)</mi>"
    text = re.sub(rf"(</m[in]>|</msub>|\)</mo>)(\s*{name})", rf"\1{space}\2", text)
    return re.sub(r"<mo>&ApplyFunction;</mo>(?!\s*<mo[^>]*>[(\[])", space, text)


def _inline(writer, node):
    writer.body.append(_mathml(node.astext()))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{_mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def _sizes(app, doctree):
    """Show all figures at the same scale: a page's width is 6.75 inches, a column's is not."""
    for node in doctree.findall(nodes.image):
        with Image.open(Path(app.srcdir, node["uri"])) as picture:
            if "dpi" in picture.info:
                node["width"] = f"{7.25 * picture.width / picture.info['dpi'][0]:.1f}em"


_SECTIONS = Config(napoleon_attr_annotations=False)


def _sections(app, what, name, obj, options, lines):
    """Read "Args:" and the like; not in attributes, where a colon is only a colon."""
    # A paragraph that is indented after an empty line is code or a formula.
    text = re.sub(r"(?m)(^\S.*\n\n)(?=    )", r"\1::\n\n", "\n".join(lines))
    lines[:] = text.split("\n")
    if what in ("function", "method", "class", "exception"):
        lines[:] = GoogleDocstring(lines, _SECTIONS, app, what, name, obj, options).lines()


def _skip(app, what, name, obj, skip, options):
    """Leave out the fields of a named tuple that nobody described: they are in its signature."""
    return True if (getattr(obj, "__doc__", None) or "").startswith("Alias for field") else None


def setup(app):
    """Write formulas as MathML, which browsers show by themselves: no script, no network."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-process-docstring", _sections)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _sizes)
