"""Further seeds of single cells: a study of each pair's best cell, to judge it by new seeds."""

from __future__ import annotations

from dataclasses import replace

from mirrorax.errors import UserError
from mirrorax.paper import catalogue
from mirrorax.paper.axes import PAIRS, SEEDS
from mirrorax.paper.claims_on_pairs import best_cell
from mirrorax.paper.panels import Panel
from mirrorax.paper.readings import Reading
from mirrorax.paper.runs import Runs
from mirrorax.spec.study import Study, parse
from mirrorax.spec.writing import to_toml


def best_cells(runs: Runs, reading: Reading) -> Study:
    """Return the best cell of each pair of Table 1 that has a grid of runs, with all seeds."""
    blocks = []
    baseline = catalogue.entry("baseline").block
    for label, pair in PAIRS.items():
        found = runs.on_grid(Panel(label, pair), every_seed=True)
        if found is None:
            continue
        i, j = best_cell(found).tuning.fixed_cell
        item = found.landscape
        block = replace(
            baseline,
            pairs=(pair,),
            alpha=(float(item.alphas[i]),),
            lam=(float(item.lams[j]),),
            seeds=tuple(range(SEEDS)),
        )
        blocks.append(reading.apply(block))
    if not blocks:
        raise UserError(
            f"study: 'best' needs runs of Table 1's pairs in the reading {reading.name}"
        )
    name = f"best cells, reading {reading.name}"
    return parse(to_toml(name, blocks), name=name, where=name)
