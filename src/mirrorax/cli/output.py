"""What commands print: tables of runs, and figures that are written whole or not at all."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from mirrorax.runs.settings import RunValues, Settings

_FORMATS = (".png", ".svg", ".pdf")


def console() -> Console:
    """Return a console for standard output that shows names as they are, without markup."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows of text in columns, the first `left` aligned to the left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        aligned = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in cells]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def check_target(field: str, path: str, endings: Sequence[str] = _FORMATS) -> None:
    """Refuse the path of a file that cannot be written, before the work that would fill it."""
    target = Path(path)
    if target.suffix.lower() not in endings or not target.stem:
        allowed = " or ".join([", ".join(endings[:-1]), endings[-1]][len(endings) == 1 :])
        raise UserError(f"{field}: {path!r} is not allowed: a file name that ends in {allowed}")
    folder = str(target.parent)
    if not target.parent.is_dir():
        raise UserError(f"{field}: {path!r}: there is no folder {folder!r}")
    if target.is_dir():
        raise UserError(f"{field}: {path!r} is a folder; name a file")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".mirrorax."):
            pass
    except OSError as error:
        raise UserError(f"{field}: cannot write {path!r}: {error.strerror}") from None


def save_figure(path: str, draw: Callable[[Any], Any]) -> None:
    """Draw on a new axis and write the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mirrorax.files import write_file

    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    data = io.BytesIO()
    figure.savefig(data, format=Path(path).suffix[1:].lower())
    try:
        write_file(path, data.getvalue())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def varying(runs: Sequence[RunValues]) -> list[str]:
    """Return the names of the values in which the points of a grid differ."""
    from mirrorax.runs.settings import GRID

    return [name for name in GRID if len({getattr(run, name) for run in runs}) > 1]


def show_result(
    screen: Console,
    title: str,
    runs: Sequence[RunValues],
    columns: Mapping[str, Sequence[str]],
    cells: Sequence[Mapping[str, Any]],
    scores: tuple[np.ndarray, np.ndarray],
    known: bool,
    numbered: bool = False,
) -> None:
    """Show a row for each run, a row for each point of the grid, and the mean over all.

    `scores` are the normalised returns, stochastic and greedy; `known` says whether the bounds of
    returns are known.
    """
    import numpy as np

    from mirrorax.analysis.few_seeds import UNIT, seeds_in_words

    bounds = UNIT if known else None
    names = varying(runs)
    table = _table(title, [*(["run"] if numbered else []), *names, "seed", *columns])
    for index, run in enumerate(runs):
        number = [str(index)] if numbered else []
        values = [f"{getattr(run, name):g}" for name in names]
        reached = [column[index] for column in columns.values()]
        table.add_row(*number, *values, str(run.seed), *reached)
    screen.print(table)
    if len(cells) > 1:
        table = _table("over seeds", [*names, "runs", "normalised", "95% interval", "greedy"])
        for cell in cells:
            words = seeds_in_words(np.array([cell["scores"]]), bounds)
            means = [f"{cell['mean']:.3f}", words, f"{cell['greedy_mean']:.3f}"]
            table.add_row(*(f"{cell[name]:g}" for name in names), str(cell["runs"]), *means)
        screen.print(table)
    stochastic, greedy = scores
    words = seeds_in_words(stochastic[None], bounds, noun="run")
    words = f"95% interval over runs {words}" if words.startswith("[") else words
    screen.print(
        f"normalised return {stochastic.mean():.3f}  ({words});  greedy {greedy.mean():.3f}"
    )


def _table(title: str, names: Sequence[str]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    for name in names:
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut off
    return table


def conditions(settings: Settings, runs: Sequence[RunValues]) -> str:
    """Say what all runs have in common, for the line below the table."""
    values, apart = runs[0], varying(runs)
    first = "w" if values.alpha is None else "alpha"
    parts = []
    second = "v" if values.lam is None else "lam"
    for name, schedule in ((first, settings.alpha_schedule), (second, settings.lam_schedule)):
        number = "" if name in apart else f" {getattr(values, name):g}"
        parts.append(f"{name}{number} ({schedule})")
    if settings.temperature_units != "reward":
        parts.append(f"in units of {settings.temperature_units}")
    return ", ".join([*parts, f"{settings.steps:,} steps"])
