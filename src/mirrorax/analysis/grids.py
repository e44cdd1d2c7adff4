"""Which cells of several grids can be compared, and which cells of one grid make a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from mirrorax.analysis.landscape import Landscape

Mask = Bool[np.ndarray, "alpha lam"]


def map_grid(given: Mask) -> tuple[Bool[np.ndarray, " alpha"], Bool[np.ndarray, " lam"]]:
    """Return the rows and columns that make a map, without those that hold a few extra cells.

    The emptiest row or column is dropped as long as it has less than half the cells, relative to
    its length, that the whole has. A grid with holes and a strip along each axis stay as they are.
    """
    rows, columns = np.asarray(given.any(axis=1)), np.asarray(given.any(axis=0))
    while rows.any():
        part = given[np.ix_(rows, columns)]
        by_row, by_column = part.mean(axis=1), part.mean(axis=0)
        if min(by_row.min(), by_column.min()) >= part.mean() / 2:
            break
        if by_row.min() <= by_column.min():
            rows[np.flatnonzero(rows)[by_row.argmin()]] = False
        else:
            columns[np.flatnonzero(columns)[by_column.argmin()]] = False
    return rows, columns


def crop(
    landscape: Landscape, rows: Bool[np.ndarray, " alpha"], columns: Bool[np.ndarray, " lam"]
) -> Landscape:
    """Return the landscape on some of its alphas and lambdas."""
    at = np.ix_(rows, columns)
    return replace(
        landscape,
        alphas=landscape.alphas[rows],
        lams=landscape.lams[columns],
        seeds=landscape.seeds[at],
        state=landscape.state[at],
        stochastic=landscape.stochastic[at],
        greedy=landscape.greedy[at],
        rows=landscape.rows[at],
        unflagged=landscape.unflagged[at],
    )


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
