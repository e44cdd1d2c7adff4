"""Smooth convex programs on the simplex, for functions of which nothing else is known.

The built-in regularisers have structure, and `mirrorax.tabular.mirror_step` uses it. A user's
function has none; it is minimised here by a barrier method: for a falling sequence of t, Newton's
method on

    minimise  f(p) - t sum_i log p_i   subject to  sum_i p_i = 1.

For convex f the minimiser for t is within n t of the minimum. Derivatives come from jax, in
float64; the small linear systems are solved by numpy, never by batched LAPACK calls in a compiled
program (which can deadlock on a machine with few cores).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from mirrorax.errors import UserError

#: the barrier's gap n t at the end, relative to the size of the objective
_GAP = 1e-11
_SHRINK = 0.1
#: an objective this much smaller at its minimum than at the start is worth going on for
_MUCH_SMALLER = 0.01
_NEWTON_STEPS = 60


@lru_cache(maxsize=64)
def _derivatives(function: Callable[..., jax.Array]) -> tuple[Any, Any]:
    """Return jitted, batched (value) and (value, gradient, Hessian) of a function of (p, *rest)."""

    def all_three(p: jax.Array, *rest: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(function)(p, *rest)
        return value, gradient, jax.hessian(function)(p, *rest)

    return jax.jit(jax.vmap(function)), jax.jit(jax.vmap(all_three))


def minimize_on_simplex(
    function: Callable[..., jax.Array],
    parameters: tuple[Float64[np.ndarray, "rows ..."], ...],
    shape: tuple[int, int],
    called: str,
) -> Float64[np.ndarray, "rows actions"]:
    """Return, for each row, the p on the simplex that minimises `function(p, *parameters[row])`.

    Args:
        function: a jax function of one probability vector and one row of each parameter. It must
            be hashable: its compiled derivatives are kept.
        parameters: arrays whose first axis counts the rows.
        shape: (rows, actions).
        called: what it is called in an error: "potential: 'burg'".

    Raises:
        UserError: if Newton's method does not converge, as for a function that is not convex.
    """
    actions = shape[1]
    value, all_three = _derivatives(function)
    with jax.enable_x64(True):
        fixed = tuple(jnp.asarray(a, jnp.float64) for a in parameters)
        p = np.full(shape, 1 / actions)
        f, gradient, hessian = map(np.asarray, all_three(p, *fixed))
        scale = 1 + np.abs(f) + np.ptp(gradient, axis=-1)
        t = 0.1 * scale
        done = _curves_up(hessian, p)
        while done.all():
            p, done = _newton(value, all_three, fixed, p, t, scale)
            if np.all(t * actions <= _GAP * scale):
                done = done & _curves_up(np.asarray(all_three(p, *fixed)[2]), p)
                if done.all():
                    p = _refined(value, all_three, fixed, p, t, scale)
                break
            t = t * _SHRINK
    if not done.all():
        raise UserError(
            f"{called}: no minimum was found; a function of your own must be smooth and convex in "
            "p (mirrorax.check_potential or check_drift with its name shows where it is not), and "
            "Q beside its temperatures not so large that the minimum is at the very boundary"
        )
    return p


def _refined(
    value: Any, all_three: Any, fixed: tuple[jax.Array, ...], p: Any, t: Any, scale: Any
) -> Any:
    """Go on where the objective is far smaller at its minimum than in the middle of the simplex.

    (p - q)^2 / q with a small q is huge in the middle, and an error that is small beside that is
    not small beside the minimum. A row that does not get further keeps what it has.
    """
    f, gradient, _ = map(np.asarray, all_three(p, *fixed))
    smaller = np.minimum(1 + np.abs(f) + np.ptp(gradient * p, axis=-1), scale)
    going = smaller < _MUCH_SMALLER * scale
    while (going := going & (t * p.shape[1] > _GAP * smaller)).any():
        t = np.where(going, t * _SHRINK, t)
        closer, done = _newton(value, all_three, fixed, p, t, smaller)
        going = going & done
        p = np.where(going[:, None], closer, p)
    return p


def _curves_up(hessian: Any, p: Any) -> Any:
    """Whether the Hessian is positive semidefinite along the simplex, in steps x = dp / p."""
    relative = hessian * p[:, :, None] * p[:, None, :]
    across = p / np.linalg.norm(p, axis=-1, keepdims=True)
    along = np.eye(p.shape[1]) - across[:, :, None] * across[:, None, :]
    smallest = np.linalg.eigvalsh(along @ relative @ along)[:, 0]
    return smallest >= -1e-9 * (1e-30 + np.abs(relative).max(axis=(1, 2)))


def _newton(
    value: Any, all_three: Any, fixed: tuple[jax.Array, ...], p: Any, t: Any, scale: Any
) -> tuple[Any, Any]:
    """Centre: minimise f(p) - t sum log p. Returns p and which rows converged."""
    done = np.zeros(len(p), bool)
    for _ in range(_NEWTON_STEPS):
        f, gradient, hessian = map(np.asarray, all_three(p, *fixed))
        # In relative steps x = dp / p the barrier's Hessian is t times the identity.
        matrix = np.zeros((*p.shape[:1], p.shape[1] + 1, p.shape[1] + 1))
        matrix[:, :-1, :-1] = hessian * p[:, :, None] * p[:, None, :]
        matrix[:, :-1, :-1] += t[:, None, None] * np.eye(p.shape[1])
        matrix[:, :-1, -1] = matrix[:, -1, :-1] = p
        slope = gradient * p - t[:, None]
        right = np.concatenate([-slope, 1 - p.sum(-1, keepdims=True)], axis=-1)
        try:
            relative = np.linalg.solve(matrix, right[..., None])[:, :-1, 0]
        except np.linalg.LinAlgError:  # a direction without curvature or barrier: not convex
            return p, np.zeros(len(p), bool)
        decrement = -(slope * relative).sum(-1)
        done = np.abs(decrement) <= 1e-3 * t
        if done.all():
            break
        # Stay inside, then halve until the barrier objective falls (Armijo).
        step = np.minimum(1, 0.95 / np.maximum(-relative.min(-1), 1e-300))
        before = f - t * np.log(p).sum(-1)
        for _ in range(50):
            trial = p * (1 + step[:, None] * relative)
            after = np.asarray(value(trial, *fixed)) - t * np.log(trial).sum(-1)
            # Rounding in f hides a decrease smaller than its last digits.
            enough = after <= before - 1e-4 * step * decrement + 1e-15 * scale
            if enough.all():
                break
            step = np.where(enough, step, step / 2)
        p = np.where((enough & ~done)[:, None], trial, p)
        p = p / p.sum(-1, keepdims=True)
        if not enough.all():
            done = done | (np.abs(decrement) <= 1e-13 * scale)
            break
    return p, done
