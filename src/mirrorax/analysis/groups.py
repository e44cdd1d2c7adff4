"""Runs that can be compared: algorithms with the same settings but for their pairs.

A store may hold several studies. Their algorithms are compared together if they have a cell and an
environment in common, and group by group if they have not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mirrorax.analysis.landscape import OF_A_PAIR, Landscape, counted_algorithms, landscapes
from mirrorax.analysis.summary import common_cells
from mirrorax.runs.results import Results


class Group(NamedTuple):
    """Algorithms that are compared with each other."""

    name: str  # empty if there is one group only
    items: tuple[Landscape, ...]


def comparable_groups(results: Results) -> list[Group]:
    """Return the groups of algorithms, first the one with the most to compare.

    All are one group if they have a cell and an environment in common, or differ in their pairs
    alone. Otherwise a group has the same settings but for its pairs, and is named by what sets it
    apart.
    """
    items = landscapes(results)
    by_settings: dict[Any, list[Landscape]] = {}
    for item in items:
        others = tuple((n, v) for n, v in item.settings.items() if n not in OF_A_PAIR)
        by_settings.setdefault(others, []).append(item)
    if len(by_settings) <= 1 or (_common_cells(items) and _common_tasks(items)):
        return [Group("", items)]
    groups = []
    for part in sorted(by_settings.values(), key=_size, reverse=True):
        differing = part[0].label.partition(" [")[2].removesuffix("]") or "usual settings"
        rows = np.concatenate([item.rows[item.rows >= 0] for item in part])
        group = landscapes(results.take(np.sort(rows)))
        groups.append(Group(f"{counted_algorithms(part)}: {differing}", group))
    return groups


def largest_group(results: Results) -> tuple[tuple[Landscape, ...], list[str]]:
    """Return the landscapes of the group with the most to compare, and notes on the others."""
    first, *others = comparable_groups(results)
    if not others:
        return first.items, []
    names = "; ".join(group.name for group in others)
    few = "algorithms without a common cell or environment are compared by their settings"
    return first.items, [f"{few}: these are {first.name}; not shown: {names}"]


def _common_cells(items: Sequence[Landscape]) -> int:
    """Return how many cells all landscapes have."""
    masks = [np.asarray(item.counts.any(axis=-1)) for item in items]
    return int(common_cells(items, masks)[0].sum())


def _common_tasks(items: Sequence[Landscape]) -> int:
    """Return how many environments all landscapes have."""
    return len(set.intersection(*({e.label for e in item.environments} for item in items)))


def _size(items: Sequence[Landscape]) -> tuple[int, int]:
    """Return how much there is to compare: pairs times common cells, then runs."""
    return len(items) * _common_cells(items), sum(int(item.ended.sum()) for item in items)
