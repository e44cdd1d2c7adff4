"""Write a figure as PNG, SVG and PDF."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorax.errors import UserError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg", "pdf")


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
