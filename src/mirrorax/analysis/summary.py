"""The robustness table: one row per algorithm, over cells that all rows have.

Rows whose alpha is learned have a grid of w instead of alpha. They are ranked among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.analysis.estimates import Estimate, Interval, frequency_band, ranks, robustness
from mirrorax.analysis.few_seeds import UNIT, mean_intervals, seeds_in_words
from mirrorax.analysis.landscape import (
    ABSENT,
    DIVERGED,
    FAILED,
    Cells,
    Diverged,
    Evaluation,
    Landscape,
    Mask,
    common_cells,
    landscapes,
    map_grid,
    shared_environments,
)
from mirrorax.analysis.reference import Reference, ReferenceValues
from mirrorax.analysis.region import Region, region
from mirrorax.analysis.scores import Statistic, cell_scores, check_threshold
from mirrorax.analysis.tuned import Tuning, tuned_against_fixed
from mirrorax.envs import suite
from mirrorax.errors import UserError, unknown
from mirrorax.runs.results import Results, as_results


@dataclass(frozen=True, eq=False)
class RobustnessRow:
    """One algorithm: its best cell, freq and Rbst for each threshold, and the data behind them."""

    landscape: Landscape  # on the chosen environments, cropped to its grid
    mask: Mask  # the cells that count
    best_alpha: float
    best_lam: float
    best: float
    best_interval: Interval | None
    best_seeds: str  # its interval in words, or what stands in its place
    frequency: tuple[Estimate, ...]
    rbst: tuple[Estimate, ...]
    ranks: tuple[tuple[int, int] | None, ...]  # the best and the worst possible, per threshold
    comparable: bool  # whether the other rows of its axis count the same cells
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

    @property
    def label(self) -> str:
        """The algorithm's name."""
        return self.landscape.label


@dataclass(frozen=True, eq=False)
class RobustnessTable:
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
    items = _on_environments(everything, names)
    scored = [
        item.cells(cells) & np.isfinite(cell_scores(item.runs(evaluation, diverged), statistic))
        for item in items
    ]
    which = "cell with positive temperatures" if cells == "positive" else "cell"
    empty = [
        f"{item.label}: no {which} has a run in each of {', '.join(names)}"
        for item, mask in zip(items, scored, strict=True)
        if not mask.any()
    ]
    if len(empty) == len(items):
        raise UserError(empty[0])
    alike = cells == "positive" and statistic == "mean" and evaluation == "stochastic"
    rows: list[RobustnessRow] = []
    lines = [*notes, *(f"left out: {text}" for text in empty)]
    for axis in ("alpha", "w"):
        group = [(i, m) for i, m in zip(items, scored, strict=True) if i.axis == axis and m.any()]
        if not group:
            continue
        members, own = (list(part) for part in zip(*group, strict=True))
        masks = common_cells(members, own)
        started = [(item.state != ABSENT).any(axis=-1).all(axis=-1) for item in members]
        comparable = bool(masks[0].any())
        if comparable:
            started = common_cells(members, started)
        of_group = [
            _row(
                item,
                mask if comparable else mine,
                mine,
                map_grid(given),
                item.cells(cells),
                levels,
                (statistic, evaluation, diverged),
                reference.values(item.settings, names) if reference and alike else None,
            )
            for item, mask, mine, given in zip(members, masks, own, started, strict=True)
        ]
        rows += _ranked(of_group, len(levels)) if comparable else of_group
        lines += _about_cells(of_group, comparable)
    if len({row.landscape.axis for row in rows}) > 1:
        lines.append("rows with a learned alpha have a grid of w: they are ranked among themselves")
    lines += _about_runs(rows, everything, names, diverged)
    if reference:
        lines += _about_reference(rows, reference.name)
    return RobustnessTable(
        rows=tuple(rows),
        thresholds=levels,
        environments=names,
        cells=cells,
        statistic=statistic,
        evaluation=evaluation,
        diverged=diverged,
        notes=tuple(lines),
        reference=reference.name if reference else "",
    )


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


def _row(
    item: Landscape,
    mask: Mask,
    own: Mask,
    kept: tuple[np.ndarray, np.ndarray],
    allowed: Mask,
    levels: tuple[float, ...],
    how: tuple[Statistic, Evaluation, Diverged],
    reference: ReferenceValues | None,
) -> RobustnessRow:
    """Compute a row over the cells of `mask`; `own` are all its cells with a score.

    Its grid are the `allowed` cells on the rows and columns `kept`.
    """
    statistic, evaluation, diverged = how
    rows, columns = kept[0] | mask.any(axis=1), kept[1] | mask.any(axis=0)
    at = np.ix_(rows, columns)
    grid = (np.outer(*kept) & allowed | mask)[at]
    elsewhere = int((own & ~mask).sum())
    landscape, mask = item.crop(rows, columns), mask[at]
    runs = landscape.runs(evaluation, diverged)
    scores = np.where(mask, cell_scores(runs, statistic), np.nan)
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
        best_alpha=float(landscape.alphas[i]),
        best_lam=float(landscape.lams[j]),
        best=float(scores[i, j]),
        best_interval=Interval(float(low), float(high)) if mean and np.isfinite(low) else None,
        best_seeds=seeds_in_words(runs[i, j], bounds) if mean else "",
        frequency=frequency_band(runs, levels, cells=mask, statistic=statistic),
        rbst=robustness(runs, levels, cells=mask, statistic=statistic),
        ranks=(None,) * len(levels),
        comparable=False,
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
    )


def _ranked(rows: Sequence[RobustnessRow], levels: int) -> list[RobustnessRow]:
    """Sort rows that count the same cells, and give each its ranks."""
    rows = sorted(rows, key=lambda row: -row.rbst[0].value)
    by_level = [ranks([row.rbst[k] for row in rows]) for k in range(levels)]
    return [
        replace(
            row,
            comparable=True,
            ranks=tuple((int(r.low[i]), int(r.high[i])) if r else None for r in by_level),
        )
        for i, row in enumerate(rows)
    ]


def _about_cells(rows: Sequence[RobustnessRow], comparable: bool) -> list[str]:
    """Say which cells the rows are compared over, and what they have besides."""
    if not comparable:
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
