"""Tables of runs, as `train` and `play` show them: by run, by point of the grid, and overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from mirrorax.runs.settings import RunValues, Settings


def varying(runs: Sequence[RunValues]) -> list[str]:
    """Return the values that tell the points of a grid apart, in its order."""
    from mirrorax.training import GRID

    return [name for name in GRID if len({getattr(run, name) for run in runs}) > 1]


def show_runs(
    screen: Console,
    title: str,
    runs: Sequence[RunValues],
    columns: Mapping[str, Sequence[str]],
    numbered: bool = False,
) -> None:
    """Show a row for each run: its number, what tells it from the others, and what it reached."""
    from rich.table import Table

    table = Table(title=title)
    names = [*varying(runs), "seed"]
    for name in (*(["run"] if numbered else []), *names, *columns):
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut off
    for index, run in enumerate(runs):
        number = [str(index)] if numbered else []
        values = [f"{getattr(run, name):g}" for name in names[:-1]]
        reached = [column[index] for column in columns.values()]
        table.add_row(*number, *values, str(run.seed), *reached)
    screen.print(table)


def show_cells(
    screen: Console,
    runs: Sequence[RunValues],
    cells: Sequence[Mapping[str, Any]],
    known: bool,
) -> None:
    """Show each point of the grid, over its seeds, if there are several.

    `known`: whether the bounds of returns are.
    """
    if len(cells) < 2:
        return
    import numpy as np
    from rich.table import Table

    names = varying(runs)
    from mirrorax.analysis.few_seeds import UNIT, seeds_in_words

    table = Table(title="over seeds")
    for name in (*names, "runs", "normalised", "95% interval", "greedy"):
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut off
    for cell in cells:
        words = seeds_in_words(np.array([cell["scores"]]), UNIT if known else None)
        numbers = [f"{cell['mean']:.3f}", words, f"{cell['greedy_mean']:.3f}"]
        table.add_row(*(f"{cell[name]:g}" for name in names), str(cell["runs"]), *numbers)
    screen.print(table)


def overall(normalized: np.ndarray, greedy: np.ndarray, known: bool) -> str:
    """Return the line of the mean over all runs."""
    from mirrorax.analysis.few_seeds import UNIT, seeds_in_words

    words = seeds_in_words(normalized[None], UNIT if known else None, noun="run")
    words = f"95% interval over runs {words}" if words.startswith("[") else words
    return f"normalised return {normalized.mean():.3f}  ({words});  greedy {greedy.mean():.3f}"


def conditions(settings: Settings, runs: Sequence[RunValues]) -> str:
    """Say what all runs have in common, for the line below the table."""
    values, apart = runs[0], varying(runs)
    first = "w" if values.alpha is None else "alpha"
    parts = []
    for name, schedule in ((first, settings.alpha_schedule), ("lam", settings.lam_schedule)):
        number = "" if name in apart else f" {getattr(values, name):g}"
        parts.append(f"{name}{number} ({schedule})")
    return ", ".join([*parts, f"{settings.steps:,} steps"])
