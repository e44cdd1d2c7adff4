"""The bootstrap over seeds within cells: every cell and environment draws anew from its own runs.

Runs of different cells, environments and seeds have independent random keys, so they are drawn
independently. With n seeds the bootstrap's spread is too small by sqrt((n - 1) / n), so each draw's
distance from the score that was observed is stretched.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_CHUNK = 8_000_000  # draws held at a time: 64 MB


def score_resamples(
    runs: Float[np.ndarray, "*cells env seed"], resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "resample *cells"]:
    """Return the cells' mean scores in each of `resamples` draws of the seeds."""
    shape = runs.shape[:-2]
    flat = np.sort(runs.reshape(-1, *runs.shape[-2:]), axis=-1)  # missing runs are last
    count = np.isfinite(flat).sum(axis=-1)
    out = np.empty((resamples, len(flat)))
    step = max(1, _CHUNK // max(1, flat.size))
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        out[start:stop] = _mean_draws(flat, count, stop - start, rng)
    return out.reshape(resamples, *shape)


def _mean_draws(
    flat: np.ndarray, count: np.ndarray, number: int, rng: np.random.Generator
) -> Float[np.ndarray, "resample cells"]:
    """Draw seed by seed, without holding every draw."""
    cells, envs, seeds = flat.shape
    total = np.zeros((number, cells * envs))
    values = np.where(np.isfinite(flat), flat, 0.0).reshape(-1)
    n = count.reshape(-1)
    offset = np.arange(cells * envs) * seeds
    for slot in range(seeds):
        u = rng.random((number, cells * envs), dtype=np.float32)
        pick = np.minimum((u * n.astype(np.float32)).astype(np.int64), np.maximum(n - 1, 0))
        drawn = values[offset + pick]
        total += drawn if n.min(initial=seeds) == seeds else np.where(slot < n, drawn, 0.0)
    mean = np.where(n > 0, total / np.maximum(n, 1), np.nan)
    observed = np.where(n > 0, values.reshape(-1, seeds).sum(axis=1) / np.maximum(n, 1), np.nan)
    mean = observed + (mean - observed) * np.sqrt(n / np.maximum(n - 1.0, 0.5))
    return np.asarray(mean.reshape(number, cells, envs).mean(axis=-1))
