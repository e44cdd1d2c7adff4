"""The monotone searches behind the mirror step: for mu, and for p given c - mu.

All work on rows at once, in float64. Terms are given as `powers`: exponent e -> coefficients
b >= 0 of b ln_e(p), where ln_e(p) = expm1(e u) / e in u = log p, and its derivative in u is b p^e.
In u the formulas neither overflow nor cancel near e = 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from mirrorax.simplex import water_level

Rows = Float64[np.ndarray, "rows actions"]

_NEWTON = 30
_BISECT = 90
_TOLERANCE = 1e-13


def psi(u: Any, powers: dict[float, Any]) -> Any:
    """Return the sum of b ln_e(p) at u = log p <= 0."""
    with np.errstate(over="ignore"):
        return sum(_times(b, np.expm1(e * u) / e if e else u) for e, b in powers.items())


def psi_slope(u: Any, powers: dict[float, Any]) -> Any:
    """Return the derivative of psi in u, the sum of b p^e."""
    with np.errstate(over="ignore"):
        return sum(_times(b, np.exp(e * u)) for e, b in powers.items())


def _times(b: Any, value: Any) -> Any:
    """Return b * value, and 0 where b = 0 even if the value overflows."""
    if b.shape[-1:] == (1,):  # one positive weight per row
        return b * value
    return b * np.where(b > 0, value, 0)


def _single(y: Any, e: float, b: Any) -> Any:
    """Solve b ln_e(p) = y for u = log p; -inf where even p = 0 is too large."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = y / b
        u = np.log1p(np.maximum(e * ratio, -1)) / e if e else ratio
    return np.where(b > 0, u, -np.inf)


def inverse(y: Any, powers: dict[float, Any], start: Any = None) -> Any:
    """Solve psi(u) = y for u = log p, for y <= 0; -inf where p = 0.

    Every term is <= 0, so each alone is >= y at the solution: the largest of the single-term
    solutions bounds u from below, and with y divided among the K terms from above. Between them
    Newton's method is safeguarded by bisection.
    """
    if len(powers) == 1:
        ((e, b),) = powers.items()
        return _single(y, e, b)
    count = len(powers)
    low = np.max([_single(y, e, b) for e, b in powers.items()], axis=0)
    high = np.max([_single(y / count, e, b) for e, b in powers.items()], axis=0)
    # Where all exponents are positive psi has a lower bound, the floor, and p = 0 for y below it.
    # Just above it the single terms give no bound on u. There sum (b / e) p^e = y - floor, and the
    # largest of the K terms is at least 1/K of that.
    floor = -sum(np.where(b > 0, b / e if e > 0 else np.inf, 0) for e, b in powers.items())
    zero = (y <= floor) | ~np.isfinite(high)
    if not np.isfinite(np.where(zero, 0, low)).all():
        above = np.where(zero | ~np.isfinite(floor), 1.0, y - floor) / count
        with np.errstate(divide="ignore"):
            bounds = [
                np.where(b > 0, np.log(above * e / b) / e, np.inf)
                for e, b in powers.items()
                if e > 0
            ]
        low = np.where(np.isfinite(low), low, np.min(bounds, axis=0))
    low, high = np.where(zero, -1.0, low), np.where(zero, -1.0, np.minimum(high, 0))
    low = np.minimum(low, high)
    target = np.where(zero, psi(low, powers), y)
    u = np.clip(start, low, high) if start is not None else (low + high) / 2
    for step in range(_NEWTON + _BISECT):
        error = psi(u, powers) - target
        low, high = np.where(error <= 0, u, low), np.where(error >= 0, u, high)
        newton = u - error / np.maximum(psi_slope(u, powers), 1e-300)
        inside = (newton >= low) & (newton <= high) if step < _NEWTON else np.zeros_like(zero)
        following = np.where(inside, newton, (low + high) / 2)
        moved = np.abs(following - u) / (1 + np.abs(u))
        u = following
        # A Newton step of 1e-8 leaves an error of its square.
        if np.all((inside & (moved <= 1e-8)) | (moved <= 1e-15)):
            break
    return np.where(zero, -np.inf, u)


class Kink(NamedTuple):
    """A price per unit of mass above the anchor: psi jumps by it at p_i = anchor_i."""

    anchor: Rows
    price: Float64[np.ndarray, "rows 1"]


def multiplier(linear: Rows, powers: dict[float, Any], kink: Kink | None = None) -> Rows:
    """Return p with psi(p_i) = c_i - mu, mu such that p sums to one, for c = `linear`.

    It minimises -<c, p> + sum of the separable terms over the simplex, and with a `kink` also
    price * sum (p_i - anchor_i)_+. The rows of `linear` must have their maximum at 0.

    log(sum p) is decreasing in mu, and close to linear: Newton's method on it, inside a bracket. At
    mu = max(c) some p is one; where every p is at most 1/n the sum is at most one.
    """

    def part(rows: Any) -> tuple[Rows, dict[float, Any], Kink | None]:
        here = {e: b[rows] for e, b in powers.items()}
        return linear[rows], here, kink and Kink(kink.anchor[rows], kink.price[rows])

    low = linear.max(-1) - (kink.price[:, 0] if kink else 0)
    high = (linear - psi(-np.log(linear.shape[-1]), powers)).max(-1)
    p, total, rate, u, gain = _primal(linear, powers, kink, low)
    # Actions with no convex term at all (forward KL where q = 0) take what is left over.
    short = total < 1 - 1e-12
    if short.any():
        first = np.argmax(linear == linear.max(-1, keepdims=True), axis=-1)
        p[short, first[short]] += 1 - total[short]
    mu, width = low.copy(), high - low
    active = np.flatnonzero(~short & (np.abs(total - 1) > _TOLERANCE))
    for step in range(_NEWTON + _BISECT):
        if not active.size:
            break
        r = active  # compute only the rows that have not converged
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = mu[r] + np.log(total[r]) * total[r] / rate[r]
        inside = (newton > low[r]) & (newton < high[r]) & (step < _NEWTON)
        before = mu[r]
        mu[r] = np.where(inside, newton, (low[r] + high[r]) / 2)
        moved = (mu[r] - before)[:, None]
        start = u[r] - moved * gain[r]  # log p follows mu to first order
        p[r], total[r], rate[r], u[r], gain[r] = _primal(*part(r), mu[r], start)
        low[r] = np.where(total[r] >= 1, mu[r], low[r])
        high[r] = np.where(total[r] <= 1, mu[r], high[r])
        narrow = high[r] - low[r] <= 4e-16 * (np.abs(low[r]) + np.abs(high[r]) + width[r])
        active = r[~(narrow | (np.abs(total[r] - 1) <= _TOLERANCE))]
    # Within one rounding of mu some p may jump (a steep power, an action without a convex term):
    # every mixture of both sides of the jump is optimal, and one of them sums to one.
    r = np.flatnonzero(~short & (np.abs(total - 1) > _TOLERANCE))
    if r.size:
        p[r] = _mixed(*(_primal(*part(r), side[r])[0] for side in (low, high)))
    return _completed(p, powers, kink)


def _completed(p: Rows, powers: dict[float, Any], kink: Kink | None) -> Rows:
    """Make p sum to one by changing all psi(p_i) equally: the flattest action changes most."""
    moving = (p > 0) & (p != kink.anchor) if kink else p > 0
    slope = psi_slope(np.log(np.where(moving, p, 1.0)), powers)
    gain = np.where(moving, p / np.maximum(slope, 1e-200), 0)
    share = gain / np.maximum(gain.sum(-1, keepdims=True), 1e-300)
    level = p + (1 - p.sum(-1, keepdims=True)) * share
    p = np.where((level >= 0).all(-1, keepdims=True), level, p)
    return p / p.sum(-1, keepdims=True)


def _mixed(more: Rows, less: Rows) -> Rows:
    """Mix two points, of sums at least and at most one, so that the sum is one."""
    above = np.maximum(more.sum(-1, keepdims=True) - 1, 0)
    below = np.maximum(1 - less.sum(-1, keepdims=True), 0)
    share = np.where(above > 0, below / np.maximum(above + below, 1e-300), 1)
    return share * more + (1 - share) * less


def _primal(
    linear: Rows, powers: dict[float, Any], kink: Kink | None, mu: Any, start: Any = None
) -> tuple[Any, Any, Any, Any, Any]:
    """Return p(mu), its sum, minus the sum's derivative in mu, log p, and minus its derivative."""
    y = linear - mu[:, None]
    if kink is None:
        u = inverse(np.minimum(y, 0), powers, start)
        p = np.exp(u)
        moving = p > 0
    else:
        y = np.minimum(y, kink.price)
        below = np.exp(inverse(np.minimum(y, 0), powers))
        above = np.exp(inverse(y - kink.price, powers))
        p = np.maximum(above, np.minimum(below, kink.anchor))
        u, moving = np.zeros_like(p), (p > 0) & (p != kink.anchor)
    with np.errstate(divide="ignore", over="ignore"):
        gain = np.where(moving, 1 / psi_slope(np.log(np.where(moving, p, 1.0)), powers), 0.0)
    return p, p.sum(-1), (p * gain).sum(-1), np.where(moving, u, 0.0), gain


def capped(values: Rows, b: Rows, peak: Any) -> Rows:
    """Minimise -<c, p> - sum b log p + w max(p), for c = `values`, b >= 0 and w = `peak` > 0.

    The epigraph form: with a cap t on every entry, p_i = min(t, b_i / (mu - c_i)). The capped
    entries push against t with the weight w = sum (c_i + b_i / t - mu)_+, which gives mu in closed
    form. The sum of p rises in t, from at most one at 1/n to at least one at 1.
    """

    def primal(cap: Any) -> Any:
        cap = cap[:, None]
        room = water_level(values + b / cap, peak) - values
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(room * cap <= b, cap, b / room)

    low, high = np.full(len(values), 1 / values.shape[-1]), np.ones(len(values))
    for _ in range(_BISECT):
        cap = (low + high) / 2
        short = primal(cap).sum(-1) <= 1
        low, high = np.where(short, cap, low), np.where(short, high, cap)
        if np.all(high - low <= 2e-16 * high):
            break
    p = _mixed(primal(high), primal(low))
    return p / p.sum(-1, keepdims=True)
