"""The robustness table: one row per algorithm, over cells that all rows have.

Rows whose alpha is learned have a grid of w instead of alpha. They are ranked among themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.analysis.estimates import Estimate, Interval, frequency_band, ranks, robustness
from mirrorax.analysis.interplay import Interplay, interplay
from mirrorax.analysis.landscape import (
    Cells,
    Evaluation,
    Landscape,
    landscapes,
    map_grid,
    shared_environments,
)
from mirrorax.analysis.reference import Reference, ReferenceValues
from mirrorax.analysis.region import Region, region
from mirrorax.analysis.scores import (
    UNIT,
    Grid,
    Mask,
    Runs,
    Statistic,
    cell_scores,
    check_threshold,
    mean_intervals,
    seeds_in_words,
)
from mirrorax.analysis.tuned import Tuning, sensitivities, tuned_against_fixed
from mirrorax.envs import suite
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import Shown
from mirrorax.runs.results import Results, as_results
from mirrorax.runs.scoring import ABSENT, DIVERGED, FAILED, Diverged


@dataclass(frozen=True, eq=False, repr=False)
class RobustnessRow(Shown):
    """One algorithm: its best cell, freq and Rbst for each threshold, and the data behind them."""

    landscape: Landscape  # on the chosen environments, cropped to its grid
    mask: Mask  # the cells that count
    scores: Grid  # as the table has them; NaN where a cell does not count
    best_alpha: float
    best_lam: float
    best: float
    best_interval: Interval | None
    best_seeds: str  # its interval in words, or what stands in its place
    frequency: tuple[Estimate, ...]
    rbst: tuple[Estimate, ...]
    cells: int  # that count
    elsewhere: int  # with a score that do not count
    grid: int  # cells of the grid
    runs: int  # with a result, on the grid
    wanted: int  # of a complete grid
    failed: int
    diverged: int
    unflagged: int  # of these, with returns that are not finite and no mark
    reference: ReferenceValues | None
    theirs: tuple[float | None, ...]  # Rbst of the reference, per threshold
    tuning: Tuning
    region: Region | None  # at the first threshold; None without cells of positive temperatures
    interplay: Interplay | None  # of the mean scores; None without a grid of 2 x 2 cells
    by_environment: tuple[Interplay | None, ...]
    sensitivity: Tuning | None = None  # of scores normalised over the rows of its axis
    ranks: tuple[tuple[int, int] | None, ...] = ()  # the best and the worst possible, per threshold
    comparable: bool = False  # whether the other rows of its axis count the same cells

    @property
    def label(self) -> str:
        """The algorithm's name."""
        return self.landscape.label


@dataclass(frozen=True, eq=False, repr=False)
class RobustnessTable(Shown):
    """All rows, most robust first, how they were made, and what a reader must know."""

    rows: tuple[RobustnessRow, ...]
    thresholds: tuple[float, ...]
    environments: tuple[str, ...]
    cells: Cells
    statistic: Statistic
    evaluation: Evaluation
    diverged: Diverged
    notes: tuple[str, ...]
    reference: str = ""  # the name of the reference beside which it stands
    #: by label, each algorithm on everything that it was run on
    whole: Mapping[str, Landscape] = field(default_factory=dict, repr=False)

    def runs(self, item: Landscape) -> Runs:
        """Return the run scores that the table is of."""
        return item.runs(self.evaluation, self.diverged)

    def scores(self, item: Landscape) -> Grid:
        """Return the cell scores that the table is of."""
        return cell_scores(self.runs(item), self.statistic)


def summarise(
    table: pa.Table | Sequence[Landscape],
    *,
    thresholds: Sequence[float] = (0.9, 0.95),
    cells: Cells = "positive",
    environments: Sequence[str] | None = None,
    statistic: Statistic = "mean",
    evaluation: Evaluation = "stochastic",
    diverged: Diverged = "lowest",
    notes: Sequence[str] = (),
    reference: Reference | None = None,
) -> RobustnessTable:
    """Return the robustness table of a store.

    Scores are means over `environments`, by default over those that every algorithm has. Only cells
    that every algorithm has count. `notes` are put before those of the table itself. Values of a
    `reference` stand beside values of the same cells, statistic and evaluation.
    """
    levels = tuple(dict.fromkeys(check_threshold(t) for t in thresholds))
    if not levels:
        raise UserError("thresholds: at least one is needed")
    everything = landscapes(table) if isinstance(table, Results | pa.Table) else tuple(table)
    names = tuple(dict.fromkeys(environments)) if environments else shared_environments(everything)
    empty = RobustnessTable((), levels, names, cells, statistic, evaluation, diverged, ())
    masks = {
        item: item.cells(cells) & np.isfinite(empty.scores(item))
        for item in _on_environments(everything, names)
    }
    which = "cell with positive temperatures" if cells == "positive" else "cell"
    unscored = [
        f"{item.label}: no {which} has a run in each of {', '.join(names)}"
        for item, mask in masks.items()
        if not mask.any()
    ]
    if len(unscored) == len(masks):
        raise UserError(unscored[0])
    rows: list[RobustnessRow] = []
    lines = [*notes, *(f"left out: {text}" for text in unscored)]
    groups: dict[tuple[str, str], dict[Landscape, Mask]] = {}
    for item, mask in masks.items():
        if mask.any():
            groups.setdefault((item.axis, item.lam_axis), {})[item] = mask
    for axes in sorted(groups):
        group = _rows(empty, groups[axes], reference)
        rows += group
        lines += _about_cells(group)
    for k, (name, weight) in enumerate((("alpha", "w"), ("lam", "v"))):
        if len({axes[k] for axes in groups}) > 1:
            lines.append(
                f"rows with a learned {name} have a grid of {weight}: they are ranked among "
                "themselves"
            )
    lines += _about_runs(rows, everything, names, diverged)
    if reference:
        lines += _about_reference(rows, reference.name)
    name = reference.name if reference else ""
    whole = {item.label: item for item in everything}
    return replace(empty, rows=tuple(rows), notes=tuple(lines), reference=name, whole=whole)


def _on_environments(items: Sequence[Landscape], names: Sequence[str]) -> list[Landscape]:
    """Return the landscapes that have all these environments, restricted to them."""
    out = [i.select(names) for i in items if set(names) <= {e.label for e in i.environments}]
    if not out:
        known = sorted({e.label for item in items for e in item.environments})
        for name in names:
            if name not in known:
                raise unknown("environment", name, known)
        raise UserError(f"environments: no algorithm was run on all of {', '.join(names)}")
    return out


def common_cells(items: Sequence[Landscape], masks: Sequence[Mask]) -> list[Mask]:
    """Cut each mask to the cells that all landscapes have, matched by their temperatures."""
    cells = [
        set(zip(item.alphas[i].tolist(), item.lams[j].tolist(), strict=True))
        for item, (i, j) in zip(items, map(np.nonzero, masks), strict=True)
    ]
    common = set.intersection(*cells)
    return [
        np.array([[(a, b) in common for b in item.lams.tolist()] for a in item.alphas.tolist()])
        for item in items
    ]


def _rows(
    table: RobustnessTable, own: dict[Landscape, Mask], reference: Reference | None
) -> list[RobustnessRow]:
    """Return the rows of landscapes with the same axes, ranked if they have a cell in common.

    `own` are all cells with a score of each. Those that count are the common ones, if any.
    """
    items, masks = list(own), common_cells(list(own), list(own.values()))
    started = [(item.state != ABSENT).any(axis=-1).all(axis=-1) for item in items]
    comparable = bool(masks[0].any())
    if comparable:
        started = common_cells(items, started)
    else:
        masks = list(own.values())
    how = (table.cells, table.statistic, table.evaluation)
    if how != ("positive", "mean", "stochastic"):  # as the values of a reference are
        reference = None
    rows = []
    for item, mask, given in zip(items, masks, started, strict=True):
        theirs = reference.values(item.settings, table.environments) if reference else None
        elsewhere = int((own[item] & ~mask).sum())
        rows.append(_row(table, item, mask, map_grid(given), elsewhere, theirs))
    if comparable:
        rows.sort(key=lambda row: (-row.rbst[0].value, -row.best))
    measures = sensitivities([table.runs(row.landscape) for row in rows], [r.mask for r in rows])
    by_level = [
        ranks([row.rbst[k] for row in rows]) if comparable else None
        for k in range(len(table.thresholds))
    ]
    return [
        replace(
            row,
            sensitivity=measures[i],
            ranks=tuple(level[i] if level else None for level in by_level),
            comparable=comparable,
        )
        for i, row in enumerate(rows)
    ]


def _row(
    table: RobustnessTable,
    item: Landscape,
    mask: Mask,
    kept: tuple[np.ndarray, np.ndarray],
    elsewhere: int,
    reference: ReferenceValues | None,
) -> RobustnessRow:
    """Compute a row over the cells of `mask`; its grid has the rows and columns `kept`."""
    rows, columns = kept[0] | mask.any(axis=1), kept[1] | mask.any(axis=0)
    at = np.ix_(rows, columns)
    grid = (np.outer(*kept) & item.cells(table.cells) | mask)[at]
    landscape, mask = item.crop(rows, columns), mask[at]
    levels, statistic, runs = table.thresholds, table.statistic, table.runs(landscape)
    scores = np.where(mask, table.scores(landscape), np.nan)
    i, j = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    known = all(e.bounds_source != "estimated" for e in landscape.environments)
    bounds = UNIT if known else None
    low, high = mean_intervals(runs[i, j], bounds=bounds)
    mean = statistic == "mean"
    state = landscape.state[grid]
    positive = np.isfinite(scores[landscape.cells("positive")]).any()
    return RobustnessRow(
        landscape=landscape,
        mask=mask,
        scores=scores,
        best_alpha=float(landscape.alphas[i]),
        best_lam=float(landscape.lams[j]),
        best=float(scores[i, j]),
        best_interval=Interval(float(low), float(high)) if mean and np.isfinite(low) else None,
        best_seeds=seeds_in_words(runs[i, j], bounds) if mean else "",
        frequency=frequency_band(runs, levels, cells=mask, statistic=statistic),
        rbst=robustness(runs, levels, cells=mask, statistic=statistic),
        cells=int(mask.sum()),
        elsewhere=elsewhere,
        grid=int(grid.sum()),
        runs=int(np.isfinite(runs[grid]).sum()),
        wanted=int(state.size),
        failed=int((state == FAILED).sum()),
        diverged=int((state == DIVERGED).sum()),
        unflagged=int(landscape.unflagged[grid].sum()),
        reference=reference,
        theirs=tuple(reference.rbst.get(t) if reference else None for t in levels),
        tuning=tuned_against_fixed(runs, mask),
        region=region(scores, landscape.alphas, landscape.lams, levels[0]) if positive else None,
        interplay=_interplay(runs, mask),
        by_environment=tuple(_interplay(runs[:, :, [e]], mask) for e in range(runs.shape[2])),
    )


def _interplay(runs: Runs, mask: Mask) -> Interplay | None:
    try:
        return interplay(runs, mask)
    except UserError:
        return None  # a single line of cells


def _about_cells(rows: Sequence[RobustnessRow]) -> list[str]:
    """Say which cells the rows are compared over, and what they have besides."""
    if not rows[0].comparable:
        return ["the algorithms have no cell in common: their rows are not comparable or ranked"]
    extra = ", ".join(f"{row.label} {row.elsewhere}" for row in rows if row.elsewhere)
    if not extra:
        return []
    return [
        f"all rows are over the {rows[0].cells} cells that all {len(rows)} algorithms have; "
        f"cells that only some have are left out: {extra}"
    ]


def _about_runs(
    rows: Sequence[RobustnessRow],
    items: Sequence[Landscape],
    names: Sequence[str],
    diverged: Diverged,
) -> list[str]:
    """Say what is estimated, left out, missing or diverged."""
    notes = []
    for environment in rows[0].landscape.environments:
        if environment.bounds_source == "estimated":
            meaning = suite.estimated_in_words(environment.return_min, environment.return_max)
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
            scored = row.cells + row.elsewhere
            notes.append(f"{row.label}: {why}; {scored} of {row.grid} cells have a score")
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
    return notes


def _about_reference(rows: Sequence[RobustnessRow], name: str) -> list[str]:
    """Say where the values of a reference are not like ours."""
    beside = [(row, row.reference) for row in rows if row.reference]
    if not beside:
        return [f"reference {name}: it has no value that is comparable with these"]
    notes = [
        f"the reference's values are over {theirs} cells, ours over {ours}: not like for like"
        for theirs, ours in dict.fromkeys((values.cells, row.cells) for row, values in beside)
        if theirs not in (None, ours)
    ]
    for how in dict.fromkeys(values.otherwise for _, values in beside):
        alike = [row.label for row, values in beside if values.otherwise == how]
        which = "" if len(alike) == len(beside) else f" ({', '.join(alike)})"
        if how:
            notes.append(f"other settings than the reference's{which}: {how}")
    return notes


def reached(runs: Results | pa.Table, planned: pa.ChunkedArray) -> int:
    """Return how many of the planned runs are done."""
    results = as_results(runs)
    mine = pc.is_in(results.rows["run_id"], value_set=pc.unique(planned))
    return int((mine.to_numpy() & results.done).sum())


def unfinished(runs: Results | pa.Table, planned: pa.ChunkedArray | None) -> tuple[str, ...]:
    """Return a note where runs of the recorded study are not done; nothing where all are."""
    if planned is None:
        return ()
    done = reached(runs, planned)
    if done == len(planned):
        return ()
    return (f"the recorded study has {len(planned)} runs, {done} of them are done",)
