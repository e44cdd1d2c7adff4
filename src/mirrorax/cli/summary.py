"""Tables of runs, as `train` and `play` show them: by run, by point of the grid, and overall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from mirrorax.mdpo.config import RunValues, Settings


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
    screen: Console, runs: Sequence[RunValues], cells: Sequence[Mapping[str, Any]]
) -> None:
    """Show each point of the grid, over its seeds, if there are several."""
    if len(cells) < 2:
        return
    from rich.table import Table

    names = varying(runs)
    table = Table(title="over seeds")
    several = all(cell["interval"] is not None for cell in cells)
    shown = ["normalised", *(["95% interval"] if several else []), "greedy"]
    for name in (*names, "runs", *shown):
        table.add_column(name, justify="right", overflow="fold")  # nothing is cut off
    for cell in cells:
        ends = ["[{:.3f}, {:.3f}]".format(*cell["interval"])] if several else []
        numbers = [f"{cell['mean']:.3f}", *ends, f"{cell['greedy_mean']:.3f}"]
        table.add_row(*(f"{cell[name]:g}" for name in names), str(cell["runs"]), *numbers)
    screen.print(table)


def overall(runs: Sequence[RunValues], normalized: np.ndarray, greedy: np.ndarray) -> str:
    """Return the line of the mean over all runs."""
    from mirrorax.training.result import interval_over_seeds

    ends = interval_over_seeds(runs, normalized)
    said = "one seed: no interval"
    if ends is not None:
        said = f"95% bootstrap interval over runs [{ends[0]:.3f}, {ends[1]:.3f}]"
    return f"normalised return {normalized.mean():.3f}  ({said});  greedy {greedy.mean():.3f}"


def conditions(settings: Settings, runs: Sequence[RunValues]) -> str:
    """Say what all runs have in common, for the line below the table."""
    values, apart = runs[0], varying(runs)
    first = "w" if values.alpha is None else "alpha"
    parts = []
    for name, schedule in ((first, settings.alpha_schedule), ("lam", settings.lam_schedule)):
        number = "" if name in apart else f" {getattr(values, name):g}"
        parts.append(f"{name}{number} ({schedule})")
    return ", ".join([*parts, f"{settings.steps:,} steps"])
