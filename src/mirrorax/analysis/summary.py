"""The robustness table: one row per algorithm, with intervals and with what lies behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mirrorax.analysis.comparison import Ranks, ranks
from mirrorax.analysis.estimates import Estimate, Interval, frequency_band, robustness
from mirrorax.analysis.few_seeds import UNIT, mean_intervals, seeds_in_words
from mirrorax.analysis.landscape import (
    DIVERGED,
    FAILED,
    Cells,
    Diverged,
    Evaluation,
    Landscape,
    landscapes,
    shared_environments,
)
from mirrorax.analysis.reference import Reference, ReferenceValues
from mirrorax.analysis.region import Region, region
from mirrorax.analysis.scores import Statistic, cell_scores
from mirrorax.analysis.shares import check_threshold
from mirrorax.analysis.tuned import Tuning, tuned_against_fixed
from mirrorax.envs import suite
from mirrorax.errors import UserError, unknown
from mirrorax.runs.results import Results


@dataclass(frozen=True, eq=False)
class Row:
    """One algorithm: its best cell, freq and Rbst for each threshold, and the data behind them."""

    landscape: Landscape
    best_alpha: float
    best_lam: float
    best: float
    best_interval: Interval | None
    best_seeds: str  # its interval in words, or what stands in its place
    frequency: tuple[Estimate, ...]
    rbst: tuple[Estimate, ...]
    cells: int  # with a score
    grid: int  # cells of the grid
    runs: int  # with a result that counts
    wanted: int  # of a complete grid
    failed: int
    diverged: int
    unflagged: int  # of these, with returns that are not finite and no mark
    reference: ReferenceValues | None
    tuning: Tuning
    region: Region | None  # at the first threshold; None without cells of positive temperatures

    @property
    def label(self) -> str:
        """The algorithm's name."""
        return self.landscape.label


@dataclass(frozen=True, eq=False)
class Summary:
    """All rows, most robust first, how they were made, and what a reader must know."""

    rows: tuple[Row, ...]
    thresholds: tuple[float, ...]
    environments: tuple[str, ...]
    cells: Cells
    statistic: Statistic
    evaluation: Evaluation
    diverged: Diverged
    ranks: tuple[Ranks | None, ...]  # per threshold, in the order of the rows
    notes: tuple[str, ...]
    reference: str = ""  # the name of the reference beside which it stands


def summarise(
    table: Results | pa.Table | Sequence[Landscape],
    *,
    thresholds: Sequence[float] = (0.9, 0.95),
    cells: Cells = "positive",
    environments: Sequence[str] | None = None,
    statistic: Statistic = "mean",
    evaluation: Evaluation = "stochastic",
    diverged: Diverged = "lowest",
    notes: Sequence[str] = (),
    reference: Reference | None = None,
) -> Summary:
    """Return the robustness table of a store.

    Scores are means over `environments`; by default over those that every algorithm has.
    An environment or a threshold that is named twice counts once. `notes`
    are put before those that the table itself gives rise to. The values of a `reference` stand
    beside those that are of the same cells, statistic and evaluation.
    """
    levels = tuple(dict.fromkeys(check_threshold(t) for t in thresholds))
    if not levels:
        raise UserError("thresholds: at least one is needed")
    items = landscapes(table) if isinstance(table, Results | pa.Table) else tuple(table)
    names = tuple(dict.fromkeys(environments)) if environments else shared_environments(items)
    everywhere = items
    items = tuple(i for i in items if set(names) <= {e.label for e in i.environments})
    if not items:
        known = sorted({e.label for item in everywhere for e in item.environments})
        for name in names:
            if name not in known:
                raise unknown("environment", name, known)
        raise UserError(f"environments: no algorithm was run on all of {', '.join(names)}")
    alike = cells == "positive" and statistic == "mean" and evaluation == "stochastic"
    rows: list[Row] = []
    without: list[str] = []  # algorithms without any score yet, with the reason
    for item in items:
        chosen = item.select(names)
        if not np.isfinite(
            cell_scores(chosen.runs(evaluation, diverged))[chosen.cells(cells)]
        ).any():
            which = "cell with positive temperatures" if cells == "positive" else "cell"
            without.append(f"{item.label}: no {which} has a run in each of {', '.join(names)}")
            continue
        beside = reference.values(item.settings, names) if reference and alike else None
        rows.append(_row(chosen, levels, cells, statistic, evaluation, diverged, beside))
    if not rows:
        raise UserError(without[0])
    rows.sort(key=lambda row: -row.rbst[0].value)
    return Summary(
        rows=tuple(rows),
        thresholds=levels,
        environments=names,
        cells=cells,
        statistic=statistic,
        evaluation=evaluation,
        diverged=diverged,
        ranks=tuple(ranks([row.rbst[k] for row in rows]) for k in range(len(levels))),
        notes=(
            *notes,
            *(f"left out: {line}" for line in without),
            *_notes(rows, everywhere, names, diverged),
            *(_compared(rows, reference.name) if reference else ()),
        ),
        reference=reference.name if reference else "",
    )


def _row(
    landscape: Landscape,
    levels: tuple[float, ...],
    cells: Cells,
    statistic: Statistic,
    evaluation: Evaluation,
    diverged: Diverged,
    reference: ReferenceValues | None,
) -> Row:
    runs = landscape.runs(evaluation, diverged)
    mask = landscape.cells(cells)
    scores = np.where(mask, cell_scores(runs, statistic), np.nan)
    i, j = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    known = all(e.bounds_source != "estimated" for e in landscape.environments)
    bounds = UNIT if known else None
    low, high = mean_intervals(runs[i, j], bounds=bounds)
    mean = statistic == "mean"
    state = landscape.state[mask]
    return Row(
        landscape=landscape,
        best_alpha=float(landscape.alphas[i]),
        best_lam=float(landscape.lams[j]),
        best=float(scores[i, j]),
        best_interval=Interval(float(low), float(high)) if mean and np.isfinite(low) else None,
        best_seeds=seeds_in_words(runs[i, j], bounds) if mean else "",
        frequency=frequency_band(runs, levels, cells=mask, statistic=statistic),
        rbst=robustness(runs, levels, cells=mask, statistic=statistic),
        cells=int(np.isfinite(scores).sum()),
        grid=int(mask.sum()),
        runs=int(np.isfinite(runs[mask]).sum()),
        wanted=int(state.size),
        failed=int((state == FAILED).sum()),
        diverged=int((state == DIVERGED).sum()),
        unflagged=int(landscape.unflagged[mask].sum()),
        reference=reference,
        tuning=tuned_against_fixed(runs, mask),
        region=_region(landscape, cell_scores(runs, statistic), levels[0]),
    )


def _region(landscape: Landscape, scores: np.ndarray, threshold: float) -> Region | None:
    if not np.isfinite(scores[landscape.cells("positive")]).any():
        return None
    return region(scores, landscape.alphas, landscape.lams, threshold)


def _notes(
    rows: Sequence[Row], items: Sequence[Landscape], names: Sequence[str], diverged: Diverged
) -> list[str]:
    notes = []
    for environment in rows[0].landscape.environments:
        if environment.bounds_source == "estimated" and environment.label in names:
            low, high = environment.return_min, environment.return_max
            meaning = suite.estimated_in_words(low, high)
            notes.append(f"{environment.label}: the bounds of its returns are estimated: {meaning}")
    left_out = sorted({e.label for item in items for e in item.environments} - set(names))
    if left_out:
        notes.append(f"not averaged over: {', '.join(left_out)}")
    absent = [i.label for i in items if not set(names) <= {e.label for e in i.environments}]
    if absent:
        notes.append(f"not run on all of these environments: {', '.join(absent)}")
    for row in rows:
        if row.runs < row.wanted:
            lacking = row.wanted - row.runs - (row.diverged if diverged == "exclude" else 0)
            why = f"{lacking} of {row.wanted} runs are missing or failed"
            if diverged == "exclude" and row.diverged:
                why += f", {row.diverged} diverged and are left out"
            scored = f"{row.cells} of {row.grid} cells have a score"
            notes.append(f"{row.label}: {why}; {scored}")
        if row.rbst[0].why:
            notes.append(f"{row.label}: {row.rbst[0].why}")
        elif row.rbst[0].no_limit:
            notes.append(f"{row.label}: no interval for {row.rbst[0].no_limit}")
        if row.unflagged:
            notes.append(
                f"{row.label}: {row.unflagged} runs have returns that are not finite; "
                "they count as diverged"
            )
    total = sum(row.diverged for row in rows)
    if total:
        how = "count with the lowest return" if diverged == "lowest" else "are left out"
        notes.append(f"{total} diverged runs {how}")
    grids = {(row.landscape.axis, *row.landscape.alphas, None, *row.landscape.lams) for row in rows}
    if len({g for g in grids if g[0] == "alpha"}) > 1 or len({g for g in grids if g[0] == "w"}) > 1:
        notes.append("the algorithms have different grids: their rows are not comparable")
    return notes


def _compared(rows: Sequence[Row], name: str) -> list[str]:
    """Say where the values of a reference are not like ours."""
    beside = [(row, row.reference) for row in rows if row.reference]
    if not beside:
        return [f"reference {name}: it has no value that is comparable with these"]
    notes = [
        f"{row.label}: the reference's value is over {values.cells} cells, ours over {row.grid}: "
        "not like for like"
        for row, values in beside
        if values.cells not in (None, row.grid)
    ]
    for how in dict.fromkeys(values.otherwise for _, values in beside):
        alike = [row.label for row, values in beside if values.otherwise == how]
        which = "" if len(alike) == len(beside) else f" ({', '.join(alike)})"
        if how:
            notes.append(f"other settings than the reference's{which}: {how}")
    return notes
