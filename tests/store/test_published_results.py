"""The published results give the numbers that the first version computed from them.

`tests/data/published_scores.json` has, of each file and algorithm, the digests of the run scores
and the numbers of the robustness table.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from mirrorax.analysis.estimates import frequency_band, robustness
from mirrorax.analysis.landscape import landscapes, shared_environments
from mirrorax.analysis.scores import cell_scores
from mirrorax.store import read_results

ROOT = Path(__file__).parents[2]
BEFORE = json.loads((ROOT / "tests/data/published_scores.json").read_text())
LEVELS = (0.9, 0.95)


def digest(scores):
    plain = np.where(np.isnan(scores), np.nan, scores).astype("<f8")
    return hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()


def table_row(item):
    """Return the numbers of one row of the robustness table, over all cells of the algorithm."""
    runs, mask = item.runs(), item.cells()
    scores = np.where(mask, cell_scores(runs), np.nan)
    i, j = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    best = [repr(float(value)) for value in (item.alphas[i], item.lams[j], scores[i, j])]
    return [
        *best,
        [repr(float(e.value)) for e in frequency_band(runs, LEVELS, cells=mask)],
        [repr(float(e.value)) for e in robustness(runs, LEVELS, cells=mask)],
        int(np.isfinite(scores).sum()),
        int(np.isfinite(runs[mask]).sum()),
    ]


@pytest.mark.parametrize("place", list(BEFORE))
def test_scores_and_tables_are_the_same_to_the_last_digit(place):
    results = read_results(ROOT / place)
    expected = BEFORE[place]
    assert len(results) == expected["runs"]
    items = landscapes(results)
    scores = {i.label: [digest(i.runs()), digest(i.runs("greedy"))] for i in items}
    assert scores == expected["scores"]
    names = shared_environments(items)
    rows = {i.label: table_row(i.select(names)) for i in items if i.label in expected["table"]}
    assert rows == expected["table"]
