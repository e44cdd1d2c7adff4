"""The house style: settings as a context, new figures, and files of them."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.errors import UserError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")

#: Width in inches of one column and of a page of text in common two-column articles.
COLUMN, PAGE = 3.25, 6.75

#: Characters in a line of a legend or of a label below bars.
LABEL = 42

#: Perceptually uniform and safe for colour blindness.
COLOURS = "viridis"
#: of numbers around 0: orange below, purple above
DIFFERENCES = "PuOr"

#: Okabe and Ito's palette: distinct under the common kinds of colour blindness.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Four more, darker or duller than these, for up to eleven lines.
MANY = (*PALETTE, "#882255", "#999933", "#332288", "#999999")

#: Told apart without colour, too.
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "figure.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,  # text stays text
    "svg.fonttype": "none",
    "figure.constrained_layout.use": True,
}


@contextmanager
def style() -> Iterator[None]:
    """Use the house style within the `with` block."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS):
        yield


def new(width: float = COLUMN, height: float | None = None, **kwargs: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes (as of `Figure.subplots`) without a window or global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height or width * 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**kwargs)


@contextmanager
def drawing(ax: Any = None) -> Iterator[Any]:
    """Give the axis to draw on: this one, or a new one of pyplot in the house style.

    A notebook shows the new one.
    """
    if ax is not None:
        yield ax
        return
    import matplotlib.pyplot as plt

    # Outside of the context: the first figure loads the backend, which sets parameters of its own.
    figure = plt.figure(figsize=(0.7 * PAGE, 0.5 * PAGE), dpi=150, layout="constrained")
    with style():
        ax = figure.subplots()
        # Ticks that are made later, when it is shown, would have other sizes.
        ax.tick_params(labelsize=_SETTINGS["xtick.labelsize"], width=0.6)
        yield ax


def wrapped(text: str, characters: float) -> str:
    """Break each line of a text between words, so that it has at most about so many characters."""
    lines = text.split("\n")
    width = max(int(characters), 1)
    return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in lines)


def rendered(
    draw: Callable[[Any], Any],
    form: str = "png",
    width: float = COLUMN,
    height: float | None = None,
    **options: Any,
) -> bytes:
    """Draw on a new figure in the house style; return the bytes of its file, none if None."""
    data = io.BytesIO()
    with style():
        figure, ax = new(width, height)
        if draw(ax) is not None:
            figure.savefig(data, format=form, **options)
    return data.getvalue()


def save(
    figure: Figure, path: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> tuple[Path, ...]:
    """Write `path` with each format's suffix; return the files."""
    for form in formats:
        if form not in FORMATS:
            raise unknown("format", form, FORMATS)
    base = Path(path)
    if not base.parent.is_dir():
        raise UserError(f"path: there is no folder {base.parent}; make it first")
    out = []
    for form in formats:
        target = base.with_name(f"{base.name}.{form}")
        # Without a date two files of the same figure are equal.
        stamp = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        figure.savefig(target, format=form, metadata=stamp)
        out.append(target)
    return tuple(out)
