"""Smooth convex programs on the simplex, for functions without known structure.

The built-in regularisers have structure, and `mirrorax.tabular.mirror_step` uses it. A user's
function is minimised here by an interior-point method, for each row separately: Newton steps for

    minimise  f(p) - t sum_i log p_i   subject to  sum_i p_i = 1

while t falls. The duality gap certifies the result. For convex f and any p

    f(p) - min f <= gap(p) = <grad f(p), p> - min_i grad_i f(p).

A row is solved if its gap is at most `TOLERANCE` x (1 + abs(f)), or no larger than the effect of
rounding p.

Derivatives come from jax, in float64; the small eigenproblems are solved by numpy, never by batched
LAPACK calls in a compiled program (which can deadlock on a machine with few cores).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from mirrorax.errors import UserError

#: the gap that is accepted, relative to 1 + abs(f)
TOLERANCE = 1e-9
#: the gap at which a row is not improved further
_GOAL = 1e-13
#: the smallest probability that is tried: its powers down to the -3rd stay finite
SMALLEST = 1e-100
_STEPS = 300
_PATIENCE = 12
_EPS = np.finfo(float).eps


class _Points(NamedTuple):
    """One point for each row, with the value and the derivatives of the function there."""

    p: Float64[np.ndarray, "rows actions"]
    value: Float64[np.ndarray, " rows"]
    gradient: Float64[np.ndarray, "rows actions"]
    hessian: Float64[np.ndarray, "rows actions actions"]

    @property
    def finite(self) -> Any:
        """Where the value and all derivatives are finite."""
        return (
            np.isfinite(self.value)
            & np.isfinite(self.gradient).all(-1)
            & np.isfinite(self.hessian).all((1, 2))
        )

    @property
    def gap(self) -> Any:
        """The duality gap <gradient, p> - min(gradient): for convex f no less than f - min f."""
        above = self.gradient - self.gradient.min(-1, keepdims=True)
        return (self.p * above).sum(-1)

    @property
    def relative(self) -> Any:
        """The Hessian in relative steps dp / p."""
        return self.hessian * self.p[:, :, None] * self.p[:, None, :]

    def where(self, rows: Any, other: _Points) -> _Points:
        """Return these points in the given rows, and the other points elsewhere."""
        pairs = zip(self, other, strict=True)
        return _Points(*(np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))


@lru_cache(maxsize=64)
def _derivatives(function: Callable[..., jax.Array]) -> Any:
    """Return jitted, batched value, gradient and Hessian of a function of (p, *rest)."""

    def all_three(p: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def gradient_of(p: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            value, gradient = jax.value_and_grad(function)(p, *rest)
            return gradient, (value, gradient)

        hessian, (value, gradient) = jax.jacfwd(gradient_of, has_aux=True)(p)
        return value, gradient, hessian

    return jax.jit(jax.vmap(all_three))


def minimize_on_simplex(
    function: Callable[..., jax.Array],
    parameters: tuple[Float64[np.ndarray, "rows ..."], ...],
    shape: tuple[int, int],
    subject: str,
    starts: Sequence[Float64[np.ndarray, "rows actions"]] = (),
) -> Float64[np.ndarray, "rows actions"]:
    """Return, for each row, the p on the simplex that minimises `function(p, *parameters[row])`.

    Args:
        function: a jax function of one probability vector and one row of each parameter. It must
            be hashable, because its compiled derivatives are cached.
        parameters: arrays whose first axis counts the rows.
        shape: (rows, actions).
        subject: the start of error messages, such as "potential: 'burg'".
        starts: points to begin at, beside the uniform one; each row takes the best.

    Raises:
        UserError: if a test shows that the function is not smooth and convex, or if a gap stays
            too large.
    """
    with jax.enable_x64(True):
        fixed = tuple(jnp.asarray(a, jnp.float64) for a in parameters)
        compiled = _derivatives(function)

        def evaluate(p: Any) -> _Points:
            return _Points(p, *map(np.asarray, compiled(p, *fixed)))

        start = _start(evaluate, shape, starts, subject)
        best, gap, concave = _descend(evaluate, start)
        ends = [(at.p, _least_curvature(at)) for at in (start, best)]
        _check_convexity(evaluate, [*ends, concave], subject)
        _check_tangent(evaluate, best, subject)
        _check_gap(evaluate, best, gap, subject)
    return best.p


def _inside(p: Any) -> Any:
    """Return the point of the simplex near p with no entry below `SMALLEST`."""
    p = np.maximum(p, SMALLEST)
    return p / p.sum(-1, keepdims=True)


def _start(evaluate: Any, shape: tuple[int, int], starts: Sequence[Any], subject: str) -> _Points:
    """Return for each row the start with the smallest value, among those with all derivatives."""
    uniform = np.full(shape, 1 / shape[1])
    best = evaluate(uniform)
    # The second start has no equal entries, where automatic differentiation may fail.
    for p in map(_inside, (uniform + np.linspace(0, 0.01, shape[1]), *starts)):
        other = evaluate(p)
        best = other.where(other.finite & ~(best.finite & (best.value <= other.value)), best)
    if not best.finite.all():
        row = int(np.argmin(best.finite))
        raise UserError(
            f"{subject}: the value at p = {_shown(best.p[row])}, its gradient or its second "
            "derivatives are not finite"
        )
    return best


def _descend(evaluate: Any, now: _Points) -> tuple[_Points, Any, tuple[Any, Any]]:
    """Return the solutions, their gaps, and (points, directions) of negative curvature.

    The solution is the point of least gap. Where rounding keeps every gap above the tolerance it is
    the last point, where Newton's method stops moving.
    """
    rows, actions = now.p.shape
    best, gap = now.p, now.gap
    t = np.maximum(0.1 * gap, _GOAL) / actions
    decrement = np.full(rows, np.inf)
    quiet = np.zeros(rows, int)
    concave = now.p, np.zeros_like(now.p)
    for _ in range(_STEPS):
        size = 1 + np.abs(now.value)
        least = 1e-3 * _GOAL * size / actions
        t = np.where(decrement <= actions * t, np.maximum(0.05 * t, least), t)
        quiet = np.where(t > least, 0, quiet + 1)
        active = (gap > _GOAL * size) & (quiet < _PATIENCE)
        if not active.any():
            break
        x, decrement, mu, lowest, along = _newton(now, t)
        down = (active & (lowest < -1e-9))[:, None]
        concave = np.where(down, now.p, concave[0]), np.where(down, along, concave[1])
        now = _search(evaluate, active, now, x, decrement, mu, t)
        quiet = np.where(now.gap < 0.5 * gap, 0, quiet)
        best, gap = np.where((now.gap < gap)[:, None], now.p, best), np.minimum(now.gap, gap)
    rounded = gap > TOLERANCE * (1 + np.abs(now.value))
    solution = evaluate(np.where(rounded[:, None], now.p, best))
    return solution, np.where(rounded, now.gap, gap), concave


def _newton(at: _Points, t: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return steps x = dp / p, decrements, multipliers mu, and least curvatures with directions.

        minimise  <p g - t, x> + x' (p H p + t) x / 2   subject to  <p, x> = 0

    with the gradient g and the Hessian H of f: in relative steps the barrier's Hessian is t. Where
    an action goes to zero, p z with its multiplier z = g - mu replaces t, as in a primal-dual
    method.
    """
    p, actions, barrier = at.p, at.p.shape[1], t[:, None]
    matrix = at.relative
    curved = np.maximum(matrix[:, np.arange(actions), np.arange(actions)], 0)
    # The multiplier of least squares: rounding in the steepest slopes does not reach the others.
    weight = p**2 / (curved + barrier)
    mu = (weight * (at.gradient - barrier / p)).sum(-1, keepdims=True)
    mu = mu / weight.sum(-1, keepdims=True)
    slack = p * (at.gradient - mu)
    diagonal = np.maximum(slack, barrier)
    # Divided by the root of its diagonal the matrix has entries of at most 1 and rounding of eps.
    root = np.sqrt(curved + diagonal)
    scaled = (matrix / root[:, :, None] / root[:, None, :]) + (
        np.eye(actions) * (diagonal / root**2)[:, :, None]
    )
    values, vectors = np.linalg.eigh(np.nan_to_num(scaled))
    inverse = 1 / np.maximum(values, 4 * actions * _EPS)
    slope, across = (slack - barrier) / root, p / root

    def solve(right: Any) -> Any:
        in_basis = np.einsum("rij,ri->rj", vectors, right) * inverse
        return np.einsum("rij,rj->ri", vectors, in_basis)

    first, second = solve(slope), solve(across)
    share = (across * first).sum(-1) / (across * second).sum(-1)
    y = share[:, None] * second - first
    return y / root, -(slope * y).sum(-1), mu, values[:, 0], vectors[:, :, 0] / root


def _search(
    evaluate: Any, active: Any, now: _Points, x: Any, decrement: Any, mu: Any, t: Any
) -> _Points:
    """Return a point along x with a slope of at most half the size of the first slope.

    The slope is that of the barrier objective. Slopes are compared, not values, because rounding
    hides the last decrease of f long before it hides the slope.
    """
    start, moved = now.p, now.p * x
    step = np.minimum(1, 0.99 / np.maximum(-x.min(-1), 1e-300))
    waiting = active.copy()
    for _ in range(30):
        trial = evaluate(_inside(start * (1 + step[:, None] * x)))
        slope = (moved * (trial.gradient - mu)).sum(-1) - t * (moved / trial.p).sum(-1)
        room = 8 * _EPS * (np.abs(moved) * (np.abs(trial.gradient) + np.abs(mu))).sum(-1)
        good = waiting & trial.finite & (slope <= 0.5 * np.abs(decrement) + room)
        now = trial.where(good, now)
        waiting &= ~good
        if not waiting.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            secant = decrement / (decrement + slope)
        step = np.where(waiting, step * np.clip(np.nan_to_num(secant), 0.1, 0.6), step)
    return now


def _check_gap(evaluate: Any, at: _Points, gap: Any, subject: str) -> None:
    """Raise where the gap is too large, and say so if there is a kink."""
    allowed = TOLERANCE * (1 + np.abs(at.value))
    large = ~(gap <= allowed)
    if large.any():
        large &= ~(gap <= allowed + 8 * _rounding(evaluate, at))
    if large.any():
        _check_smoothness(evaluate, at.p, large, subject)
        row = int(np.argmax(large))
        raise UserError(
            f"{subject}: the minimum is known only to {gap[row]:.1e}, at p = {_shown(at.p[row])} "
            f"with the value {at.value[row]:.6g}; no test of convexity or smoothness failed, so "
            "the function may be computed with too few digits there"
        )


def _rounding(evaluate: Any, at: _Points) -> Any:
    """Return the effect of rounding p on the gap: how the gradient varies over neighbours of p."""
    generator = np.random.default_rng(0)
    seen = [at.gradient]
    for _ in range(8):
        near = at.p * (1 + 2 * _EPS * generator.choice([-1, 0, 1], at.p.shape))
        seen.append(evaluate(near / near.sum(-1, keepdims=True)).gradient)
    spread = np.ptp(seen, axis=0)
    # A jump that is large beside the gradient and its change over p is not rounding.
    size = np.abs(at.gradient) + (np.abs(at.hessian) * at.p[:, None, :]).sum(-1)
    spread = np.minimum(spread, 1e-6 * size.max(-1, keepdims=True))
    lowest = np.take_along_axis(spread, at.gradient.argmin(-1)[:, None], axis=-1)[:, 0]
    return (at.p * spread).sum(-1) + lowest


def _least_curvature(at: _Points) -> Any:
    """Return, in relative steps along the simplex, the directions of least curvature, if < 0."""
    across = at.p / np.linalg.norm(at.p, axis=-1, keepdims=True)
    along = np.eye(at.p.shape[1]) - across[:, :, None] * across[:, None, :]
    values, vectors = np.linalg.eigh(np.nan_to_num(along @ at.relative @ along))
    down = values[:, 0] < -1e-9 * np.abs(values).max(-1)
    return np.where(down[:, None], vectors[:, :, 0], 0)


def _check_convexity(evaluate: Any, concave: list[tuple[Any, Any]], subject: str) -> None:
    """Confirm by the gradient at two points what a negative eigenvalue of the Hessian suggests."""
    for at, relative in concave:
        if not relative.any():
            continue
        relative = relative - (at * relative).sum(-1, keepdims=True)
        longest = np.maximum(np.abs(relative).max(-1, keepdims=True), 1e-300)
        for length in (0.5, 0.05, 0.005):
            step = length * at * relative / longest
            ends = at - step, at + step
            rise, size = _rise(evaluate, *ends, step)
            words = "convex: its slope falls between {} and {}"
            _refuse(subject, rise < -1e-8 * size, words, *ends)


def _check_tangent(evaluate: Any, at: _Points, subject: str) -> None:
    """Test at other points what makes the gap a bound: f(r) >= f(p) + <grad f(p), r - p>."""
    for action in np.unique(np.linspace(0, at.p.shape[1] - 1, 8).astype(int)):
        other = np.full(at.p.shape, 0.1 / at.p.shape[1])
        other[:, action] += 0.9
        value, rise = evaluate(other).value, at.gradient * (other - at.p)
        below = value - at.value - rise.sum(-1)
        size = np.abs(value) + np.abs(at.value) + np.abs(rise).sum(-1)
        words = "convex: at {} it is below its tangent at {}"
        _refuse(subject, below < -1e-8 * size, words, other, at.p)


def _check_smoothness(evaluate: Any, p: Any, rows: Any, subject: str) -> None:
    """Look for a kink: a change of slope that does not shrink with the distance."""
    generator = np.random.default_rng(1)
    for _ in range(8):
        along = p * generator.choice([-1.0, 1.0], p.shape)
        along -= p * along.sum(-1, keepdims=True)
        far, _ = _rise(evaluate, p - 1e-3 * along, p + 1e-3 * along, along)
        ends = p - 1e-7 * along, p + 1e-7 * along
        near, size = _rise(evaluate, *ends, along)
        kink = rows & (near > 0.1 * far) & (near > 1e-6 * size)
        _refuse(subject, kink, "smooth: its slope jumps between {} and {}", *ends)


def _rise(evaluate: Any, left: Any, right: Any, along: Any) -> tuple[Any, Any]:
    """Return the change of the slope along a direction between two points, and the slopes' size."""
    before, after = evaluate(left).gradient, evaluate(right).gradient
    size = ((np.abs(before) + np.abs(after)) * np.abs(along)).sum(-1)
    return ((after - before) * along).sum(-1), size


def _refuse(subject: str, rows: Any, words: str, *points: Any) -> None:
    """Raise a `UserError` with the points of the first of these rows, if there is one."""
    if rows.any():
        row = int(np.argmax(rows))
        why = words.format(*(f"p = {_shown(p[row])}" for p in points))
        rule = "a function of your own must be smooth and convex in p"
        raise UserError(f"{subject}: {rule}; this one is not {why}")


def _shown(p: Any) -> str:
    return "[" + ", ".join(f"{x:.9g}" for x in p) + "]"
