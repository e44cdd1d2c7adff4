"""What commands share in writing: the console, and figures that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

_FORMATS = (".png", ".svg", ".pdf")


def console() -> Console:
    """Return a console for standard output that shows names as they are, without markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def check_figure_path(field: str, path: str) -> None:
    """Refuse a figure's path that cannot be written, before the work that would fill it."""
    target = Path(path)
    if target.suffix.lower() not in _FORMATS or not target.stem:
        raise UserError(
            f"{field}: {path!r} is not allowed: a file name that ends in .png, .svg or .pdf"
        )
    if not target.parent.is_dir():
        raise UserError(f"{field}: {path!r}: there is no folder {str(target.parent)!r}")
    if target.is_dir():
        raise UserError(f"{field}: {path!r} is a folder; name a file")
    if not os.access(target.parent, os.W_OK):
        raise UserError(f"{field}: {path!r}: the folder {str(target.parent)!r} cannot be written")


def save_figure(path: str, draw: Callable[[Any], Any]) -> None:
    """Draw on a fresh axis and put the file in place in one move."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    target = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=target.suffix.lower())
        os.close(handle)
        try:
            figure.savefig(temporary)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
