from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mirrorax.analysis.estimates import Estimate
from mirrorax.paper.rank_correlation import correlations, rank_correlation


def test_the_rank_correlation_is_spearmans_and_is_sure_without_noise():
    rng = np.random.default_rng(0)
    reference, values = rng.random(11), rng.random(11)
    expected = stats.spearmanr(reference, values).statistic
    exact = [Estimate(v, 0.0, bounds=(0.0, 1.0)) for v in values]
    value, interval = rank_correlation(exact, reference, rng=rng)
    assert value == pytest.approx(expected)
    assert [interval.low, interval.high] == pytest.approx([expected, expected])
    noisy = [Estimate(v, 0.2, bounds=(0.0, 1.0)) for v in values]
    _, wide = rank_correlation(noisy, reference, rng=rng)
    assert -1 <= wide.low < expected < wide.high <= 1
    assert correlations(reference[None], np.ones((1, 11))).tolist() == [0.0]
    alone = Estimate(0.2, None, "one seed per cell: no interval")
    assert rank_correlation([*exact, alone], [*reference, 2.0], rng=rng)[1] is None
