"""Smooth convex programs on the simplex, for functions of which nothing else is known.

The built-in regularisers have structure, and `mirrorax.tabular.mirror_step` uses it. A user's
function has none; it is minimised here by an interior-point method: Newton steps for

    minimise  f(p) - t sum_i log p_i   subject to  sum_i p_i = 1

while t falls, for each row by itself. The result is judged by its duality gap. For convex f

    f(p) - min f <= gap(p) = <grad f(p), p> - min_i grad_i f(p),

whatever p is and however it was computed. A row is solved where its gap is at most
`TOLERANCE` x (1 + abs(f)), or is no larger than what one rounding of p makes of it.

Derivatives come from jax, in float64; the small eigenproblems are solved by numpy, never by batched
LAPACK calls in a compiled program (which can deadlock on a machine with few cores).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

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
    called: str,
    starts: Sequence[Float64[np.ndarray, "rows actions"]] = (),
) -> Float64[np.ndarray, "rows actions"]:
    """Return, for each row, the p on the simplex that minimises `function(p, *parameters[row])`.

    Args:
        function: a jax function of one probability vector and one row of each parameter. It must
            be hashable: its compiled derivatives are kept.
        parameters: arrays whose first axis counts the rows.
        shape: (rows, actions).
        called: what it is called in an error: "potential: 'burg'".
        starts: points to begin at, beside the uniform one; each row takes the best.

    Raises:
        UserError: if the function is seen to be no smooth convex one, or a gap stays too large.
    """
    with jax.enable_x64(True):
        fixed = tuple(jnp.asarray(a, jnp.float64) for a in parameters)
        compiled = _derivatives(function)

        def evaluate(p: Any) -> tuple[Any, Any, Any]:
            value, gradient, hessian = compiled(p, *fixed)
            return np.asarray(value), np.asarray(gradient), np.asarray(hessian)

        start = _start(evaluate, shape, starts, called)
        p, gap, bent = _descend(evaluate, start)
        ends = [_least_curvature(evaluate, at) for at in (start, p)]
        _check_convexity(evaluate, [*ends, bent], called)
        _check_tangent(evaluate, p, called)
        _check_gap(evaluate, p, gap, called)
    return p


def duality_gap(p: Any, gradient: Any) -> Any:
    """Return <gradient, p> - min(gradient): for convex f no less than f(p) - min f."""
    return (p * (gradient - gradient.min(-1, keepdims=True))).sum(-1)


def _inside(p: Any) -> Any:
    p = np.maximum(p, SMALLEST)
    return p / p.sum(-1, keepdims=True)


def _start(evaluate: Any, shape: tuple[int, int], starts: Sequence[Any], called: str) -> Any:
    """Return for each row the start with the smallest value, among those with all derivatives."""
    best, least = np.full(shape, 1 / shape[1]), np.full(shape[0], np.inf)
    # The second has no two entries alike: automatic differentiation may fail where they are.
    for other in map(_inside, (best, best + np.linspace(0, 0.01, shape[1]), *starts)):
        value, gradient, hessian = evaluate(other)
        lower = (value < least) & np.isfinite(gradient).all(-1) & np.isfinite(hessian).all((1, 2))
        best, least = np.where(lower[:, None], other, best), np.where(lower, value, least)
    if not np.isfinite(least).all():
        row = int(np.argmin(np.isfinite(least)))
        raise UserError(
            f"{called}: the value at p = {_shown(best[row])}, its gradient or its second "
            "derivatives are not finite"
        )
    return best


def _descend(evaluate: Any, p: Any) -> tuple[Any, Any, tuple[Any, Any]]:
    """Return the solutions, their gaps, and (points, directions) where f bends down.

    The solution is the point of least gap. Where rounding keeps every gap above the tolerance it is
    the last point, at which Newton's method stands still.
    """
    rows, actions = p.shape
    f, gradient, hessian = evaluate(p)
    gap = duality_gap(p, gradient)
    best, best_p = gap.copy(), p.copy()
    t = np.maximum(0.1 * gap, _GOAL) / actions
    decrement = np.full(rows, np.inf)
    quiet = np.zeros(rows, int)
    bent = p.copy(), np.zeros_like(p)
    for _ in range(_STEPS):
        least = 1e-3 * _GOAL * (1 + np.abs(f)) / actions
        t = np.where(decrement <= actions * t, np.maximum(0.05 * t, least), t)
        quiet = np.where(t > least, 0, quiet + 1)
        active = (best > _GOAL * (1 + np.abs(f))) & (quiet < _PATIENCE)
        if not active.any():
            break
        x, decrement, mu, lowest, along = _newton(p, gradient, hessian, t)
        down = (active & (lowest < -1e-9))[:, None]
        bent = np.where(down, p, bent[0]), np.where(down, along, bent[1])
        p, f, gradient, hessian = _search(
            evaluate, active, p, f, gradient, hessian, x, decrement, mu, t
        )
        gap = duality_gap(p, gradient)
        better = gap < best
        quiet = np.where(gap < 0.5 * best, 0, quiet)
        best, best_p = np.where(better, gap, best), np.where(better[:, None], p, best_p)
    rounded = best > TOLERANCE * (1 + np.abs(f))
    return np.where(rounded[:, None], p, best_p), np.where(rounded, gap, best), bent


def _newton(p: Any, gradient: Any, hessian: Any, t: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return steps dp / p, decrements, multipliers mu, and the least curvatures with directions.

    In relative steps the barrier's Hessian is t. Where an action is on its way to zero, p z with
    its multiplier z = grad_i f - mu takes the place of t, as in a primal-dual method.
    """
    actions = p.shape[1]
    matrix = hessian * p[:, :, None] * p[:, None, :]
    curved = np.maximum(matrix[:, np.arange(actions), np.arange(actions)], 0)
    # The multiplier of least squares: rounding in the steepest slopes does not reach the others.
    weight = p**2 / (curved + t[:, None])
    mu = (weight * (gradient - t[:, None] / p)).sum(-1, keepdims=True)
    mu = mu / weight.sum(-1, keepdims=True)
    slack = p * (gradient - mu)
    diagonal = np.maximum(slack, t[:, None])
    # Divided by the root of its diagonal the matrix has entries of at most 1 and rounding of eps.
    root = np.sqrt(curved + diagonal)
    scaled = (matrix / root[:, :, None] / root[:, None, :]) + (
        np.eye(actions) * (diagonal / root**2)[:, :, None]
    )
    scaled = np.nan_to_num(scaled)
    values, vectors = np.linalg.eigh(scaled)
    inverse = 1 / np.maximum(values, 4 * actions * _EPS)
    slope, across = (slack - t[:, None]) / root, p / root

    def solve(right: Any) -> Any:
        in_basis = np.einsum("rij,ri->rj", vectors, right) * inverse
        return np.einsum("rij,rj->ri", vectors, in_basis)

    first, second = solve(slope), solve(across)
    share = (across * first).sum(-1) / (across * second).sum(-1)
    y = share[:, None] * second - first
    return y / root, -(slope * y).sum(-1), mu, values[:, 0], vectors[:, :, 0] / root


def _search(
    evaluate: Any,
    active: Any,
    p: Any,
    f: Any,
    gradient: Any,
    hessian: Any,
    x: Any,
    decrement: Any,
    mu: Any,
    t: Any,
) -> tuple[Any, Any, Any, Any]:
    """Go along x until the slope of the barrier objective there is at most half of minus its first.

    Slopes are compared, not values: the rounding of f hides its last decrease long before that of
    the gradient does.
    """
    moved = p * x
    step = np.minimum(1, 0.99 / np.maximum(-x.min(-1), 1e-300))
    waiting = active.copy()
    for _ in range(30):
        trial = _inside(p * (1 + step[:, None] * x))
        there = evaluate(trial)
        slope = (moved * (there[1] - mu)).sum(-1) - t * (moved / trial).sum(-1)
        room = 8 * _EPS * (np.abs(moved) * (np.abs(there[1]) + np.abs(mu))).sum(-1)
        good = waiting & (slope <= 0.5 * np.abs(decrement) + room) & np.isfinite(there[0])
        good &= np.isfinite(there[2]).all((1, 2))
        p = np.where(good[:, None], trial, p)
        f = np.where(good, there[0], f)
        gradient = np.where(good[:, None], there[1], gradient)
        hessian = np.where(good[:, None, None], there[2], hessian)
        waiting &= ~good
        if not waiting.any():
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            secant = decrement / (decrement + slope)
        step = np.where(waiting, step * np.clip(np.nan_to_num(secant), 0.1, 0.6), step)
    return p, f, gradient, hessian


def _check_gap(evaluate: Any, p: Any, gap: Any, called: str) -> None:
    """Raise where the gap is too large, and say so if there is a kink."""
    f, gradient, hessian = evaluate(p)
    allowed = TOLERANCE * (1 + np.abs(f))
    large = ~(gap <= allowed)
    if large.any():
        large &= ~(gap <= allowed + 8 * _rounding(evaluate, p, gradient, hessian))
    if large.any():
        _check_smoothness(evaluate, p, large, called)
        row = int(np.argmax(large))
        raise UserError(
            f"{called}: the minimum is known only to {gap[row]:.1e}, at p = {_shown(p[row])} with "
            f"the value {f[row]:.6g}; no test of convexity or smoothness failed, so the function "
            "may be computed with too few digits there"
        )


def _rounding(evaluate: Any, p: Any, gradient: Any, hessian: Any) -> Any:
    """Return what rounding p makes of the gap: the spread of the gradient over neighbours of p."""
    generator = np.random.default_rng(0)
    seen = [gradient]
    for _ in range(8):
        near = p * (1 + 2 * _EPS * generator.choice([-1, 0, 1], p.shape))
        seen.append(evaluate(near / near.sum(-1, keepdims=True))[1])
    spread = np.ptp(seen, axis=0)
    # A jump that is large beside the gradient, and what p makes of it, is no rounding.
    size = np.abs(gradient) + (np.abs(hessian) * p[:, None, :]).sum(-1)
    spread = np.minimum(spread, 1e-6 * size.max(-1, keepdims=True))
    lowest = np.take_along_axis(spread, gradient.argmin(-1)[:, None], axis=-1)[:, 0]
    return (p * spread).sum(-1) + lowest


def _least_curvature(evaluate: Any, p: Any) -> tuple[Any, Any]:
    """Return p and, in relative steps along the simplex, the directions of least curvature."""
    relative = evaluate(p)[2] * p[:, :, None] * p[:, None, :]
    across = p / np.linalg.norm(p, axis=-1, keepdims=True)
    along = np.eye(p.shape[1]) - across[:, :, None] * across[:, None, :]
    values, vectors = np.linalg.eigh(np.nan_to_num(along @ relative @ along))
    down = values[:, 0] < -1e-9 * np.abs(values).max(-1)
    return p, np.where(down[:, None], vectors[:, :, 0], 0)


def _check_convexity(evaluate: Any, bent: list[tuple[Any, Any]], called: str) -> None:
    """Confirm by the gradient at two points what a negative eigenvalue of the Hessian suggests."""
    for at, relative in bent:
        if not relative.any():
            continue
        relative = relative - (at * relative).sum(-1, keepdims=True)
        longest = np.maximum(np.abs(relative).max(-1, keepdims=True), 1e-300)
        for length in (0.5, 0.05, 0.005):
            left, right = (at * (1 + sign * length * relative / longest) for sign in (-1, 1))
            before, after = evaluate(left)[1], evaluate(right)[1]
            fall = ((after - before) * (right - left)).sum(-1)
            size = ((np.abs(before) + np.abs(after)) * np.abs(right - left)).sum(-1)
            concave = fall < -1e-8 * size
            if concave.any():
                row = int(np.argmax(concave))
                way = f"from p = {_shown(left[row])} to {_shown(right[row])}"
                raise _refusal(called, f"convex: its slope falls on the way {way}")


def _check_tangent(evaluate: Any, p: Any, called: str) -> None:
    """Test at other points what makes the gap a bound: f(r) >= f(p) + <grad f(p), r - p>."""
    f, gradient, _ = evaluate(p)
    for action in np.unique(np.linspace(0, p.shape[1] - 1, 8).astype(int)):
        other = np.full(p.shape, 0.1 / p.shape[1])
        other[:, action] += 0.9
        value, rise = evaluate(other)[0], gradient * (other - p)
        below = value - f - rise.sum(-1)
        concave = below < -1e-8 * (np.abs(value) + np.abs(f) + np.abs(rise).sum(-1))
        if concave.any():
            row = int(np.argmax(concave))
            points = f"at p = {_shown(other[row])} it is below its tangent at {_shown(p[row])}"
            raise _refusal(called, f"convex: {points}")


def _check_smoothness(evaluate: Any, p: Any, rows: Any, called: str) -> None:
    """Look for a kink: a change of slope that does not shrink with the distance."""
    generator = np.random.default_rng(1)
    for _ in range(8):
        along = p * generator.choice([-1.0, 1.0], p.shape)
        along -= p * along.sum(-1, keepdims=True)
        changes, size, ends = [], 0.0, []
        for length in (1e-3, 1e-7):
            ends = [p - length * along, p + length * along]
            left, right = (evaluate(end)[1] for end in ends)
            changes.append(((right - left) * along).sum(-1))
            size = ((np.abs(right) + np.abs(left)) * np.abs(along)).sum(-1)
        kink = rows & (changes[1] > 0.1 * changes[0]) & (changes[1] > 1e-6 * size)
        if kink.any():
            row = int(np.argmax(kink))
            points = f"p = {_shown(ends[0][row])} and {_shown(ends[1][row])}"
            raise _refusal(called, f"smooth: its slope jumps between {points}")


def _refusal(called: str, why: str) -> UserError:
    rule = "a function of your own must be smooth and convex in p"
    return UserError(f"{called}: {rule}; this one is not {why}")


def _shown(p: Any) -> str:
    return "[" + ", ".join(f"{x:.9g}" for x in p) + "]"
