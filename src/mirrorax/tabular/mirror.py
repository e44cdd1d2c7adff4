"""The exact mirror step, for a whole batch of states and temperatures at once.

The problem in each state, equation (5) of the paper with a general drift as in (6):

    argmin over p in the simplex of   <p, -Q> + alpha h(p) + lambda D(p, q)

**One family.** Every separable potential here has h'(p) = constant + sum of b ln_e(p), with the
deformed logarithm ln_e(p) = (p^e - 1) / e and ln_0 = log: entropy has e = 0, Tsallis m - 1, the
p-norm p - 1. A Bregman drift adds its own terms and moves <grad g(q), p> into the linear part;
forward KL adds b = lambda q with e = -1, chi-square b = 2 lambda / q with e = 1. A potential
d(p, mu) adds the terms of the drift d from mu. So with c for the linear part, every step is

    psi_i(p_i) = sum over k of b_ik ln_{e_k}(p_i) = c_i - mu   (p_i = 0 where c_i - mu <= psi_i(0))

with one multiplier mu that makes p sum to one. Closed forms: only e = 0 is a softmax, only e = 1 a
projection onto the simplex. Otherwise `roots.multiplier` searches mu.

**Max.** A term w max(p), from h or from the drift, cuts off the peaks of c at the level where
`simplex.water_level` has removed w. With no other term p is uniform on the top k of c.

**Which minimiser**, where there are several (no strictly convex term): the one on the fewest
actions, and among those the one on the first of them. So with alpha = lambda = 0 it is the first
greedy action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from mirrorax.convex import SMALLEST, minimize_on_simplex
from mirrorax.errors import UserError
from mirrorax.regularizers.drifts import ChiSquare, Divergence, Drift, ForwardKL, SquaredTV
from mirrorax.regularizers.drifts import Zero as ZeroDrift
from mirrorax.regularizers.drifts import drift as as_drift
from mirrorax.regularizers.potentials import Max, Potential
from mirrorax.regularizers.potentials import potential as as_potential
from mirrorax.regularizers.reference import To
from mirrorax.simplex import largest, project, softmax, water_level
from mirrorax.tabular import roots
from mirrorax.tabular.inputs import check_policy, numbers, temperature
from mirrorax.tabular.roots import Rows

Weights = Float64[np.ndarray, "rows"]


def mirror_step(
    q_values: Any,
    policy: Any,
    potential: Potential | str,
    drift: Drift | str,
    alpha: Any,
    lam: Any,
) -> Float64[np.ndarray, "*batch actions"]:
    """Return the minimiser of <p, -Q> + alpha h(p) + lam D(p, policy) over the simplex.

    Args:
        q_values: Q, shape [..., actions].
        policy: the old policy, probabilities, shape [..., actions].
        potential: h, an object or a name.
        drift: D, an object or a name.
        alpha: the temperature of h, >= 0; a number or an array that broadcasts to [...].
        lam: the temperature of D, >= 0; likewise.

    Everything is computed in float64 by numpy. Built-in pairs are solved by structure; a pair with
    a user's own function by `mirrorax.convex`, for which the objective must be smooth and convex.
    """
    h, d = as_potential(potential), as_drift(drift)
    q_values, policy = numbers("q_values", q_values), numbers("policy", policy)
    actions = q_values.shape[-1] if q_values.ndim else 0
    if actions == 0 or policy.shape[-1:] != q_values.shape[-1:]:
        raise UserError(
            f"q_values, policy: shapes {q_values.shape} and {policy.shape}; both must be "
            "[..., actions] with the same number of actions"
        )
    alpha, lam = temperature("alpha", alpha), temperature("lam", lam)
    try:
        batch = np.broadcast_shapes(q_values.shape[:-1], policy.shape[:-1], alpha.shape, lam.shape)
    except ValueError:
        raise UserError(
            f"q_values, policy, alpha, lam: shapes {q_values.shape}, {policy.shape}, "
            f"{alpha.shape} and {lam.shape} do not broadcast to [..., actions] and [...]"
        ) from None
    check_policy(policy)
    if not np.isfinite(q_values).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(q_values))[0])
        raise UserError(f"q_values: entry {where} is {q_values[where]}; all must be finite")
    shape = (*batch, actions)
    linear, old = (np.broadcast_to(x, shape).reshape(-1, actions) for x in (q_values, policy))
    alpha, lam = (np.broadcast_to(w, batch).reshape(-1) for w in (alpha, lam))
    terms = [Term(d, old, lam)]
    if isinstance(h, To):  # the distance from a reference policy is a drift that is anchored there
        terms.append(Term(h.drift, _reference(h, shape), alpha, "reference"))
    else:
        terms.insert(0, Term(h, old, alpha))
    subject = f"potential, drift: '{h}' with '{d}'"
    result = np.empty_like(linear)
    # A regulariser with weight zero is absent. Rows with the same regularisers are solved together.
    regime = 2 * (alpha > 0) + (lam > 0)
    for kind in np.unique(regime):
        rows = regime == kind
        present = [
            term._replace(anchor=term.anchor[rows], weight=term.weight[rows])
            for term in terms
            if term.weight[rows][0] > 0
        ]
        result[rows] = _solve(linear[rows], old[rows], present, subject)
    return result.reshape(shape)


class Term(NamedTuple):
    """weight * h(p) or weight * D(p, anchor), one row for each state; h ignores the anchor."""

    regulariser: Potential | Drift
    anchor: Rows
    weight: Weights
    anchor_name: str = "policy"


def _reference(h: To, shape: tuple[int, ...]) -> Rows:
    """Return the reference policy of each row."""
    table = h.reference(shape[-1])
    try:
        return np.broadcast_to(table, shape).reshape(-1, shape[-1])
    except ValueError:
        raise UserError(
            f"potential: {str(h)!r}: its reference has the shape {table.shape}, which does not "
            f"broadcast to {shape}"
        ) from None


def _solve(linear: Rows, old: Rows, terms: list[Term], subject: str) -> Rows:
    """Minimise -<linear, p> + the terms: by structure if it is known, else as a convex program."""
    problem = Problem(linear.copy(), np.zeros(len(linear)), {})
    others = [term for term in terms if not problem.add(*term[:3])]
    if not all(isinstance(term.regulariser, SquaredTV) for term in others):
        return _solve_convex(linear, old, terms, subject)
    if not others:
        return problem.solve(subject)
    if len(others) > 1 or problem.peak.any():
        raise UserError(
            "drift: 'squared_tv' has no exact mirror step with the potential 'max' or a second "
            "'squared_tv'; it has one with entropy, tsallis(m), lp(p) and zero"
        )
    return _solve_squared_tv(problem, others[0].anchor, others[0].weight)


@dataclass
class Problem:
    """minimise -<linear, p> + peak max(p) + sum of separable terms, row by row."""

    linear: Rows
    peak: Weights
    powers: dict[float, Any]  # exponent e -> b, [rows, 1] or [rows, actions]

    def add(self, part: Potential | Drift, anchor: Rows, weight: Weights) -> bool:
        """Add weight * h(p), or weight * D(p, anchor) up to a constant; False if it has no place.

        Where the slope at the anchor is infinite the linear part is -inf: p stays zero there.
        """
        scale = weight[:, None]
        if isinstance(part, Divergence):
            # B_g(p, a) = g(p) - <grad g(a), p> + constant
            g = part.potential
            if not self.add(g, anchor, weight):
                return False
            stays = (anchor <= 0) & g.steep
            self.linear += scale * np.where(stays, -np.inf, g.grad(anchor))
        elif isinstance(part, ForwardKL):
            self.linear += scale * anchor
            self._add_power(-1.0, scale * anchor)
        elif isinstance(part, ChiSquare):
            # 2 (p / a - 1) = 2 / a ln_1(p) + 2 / a - 2; where a = 0 the action stays at zero.
            with np.errstate(divide="ignore", over="ignore"):
                b = np.where(anchor > 0, 2 * scale / anchor, np.inf)
            finite = np.isfinite(b)
            self.linear += np.where(finite, 2 * scale - np.where(finite, b, 0), -np.inf)
            self._add_power(1.0, np.where(finite, b, 2 * scale))
        elif isinstance(part, Max):
            self.peak = self.peak + weight
        elif isinstance(part, Potential) and part.powers is not None:
            for coefficient, exponent in part.powers:
                self._add_power(exponent, coefficient * scale)
        else:
            return False
        return True

    def _add_power(self, exponent: float, b: Any) -> None:
        """Add a separable term with derivative b ln_e(p)."""
        self.powers[exponent] = self.powers.get(exponent, 0) + b

    def solve(self, subject: str) -> Rows:
        """Return the minimiser of each row.

        Without peak it is softmax(c / b) for b sum p log p, and for b |p|^2 / 2 the projection of
        c / b onto the simplex.
        """
        if not self.powers:
            return _uniform_on_top(self.linear, self.peak)
        linear = self.linear
        even = all(b.shape[-1] == 1 for b in self.powers.values())
        if self.peak.any():
            if list(self.powers) == [-1.0]:  # forward KL: b ln_{-1}(p) = b - b / p
                weights = self.powers[-1.0]
                return roots.capped(linear - weights, weights, self.peak)
            if not even:
                raise UserError(
                    f"{subject} has no exact mirror step: max needs a partner that treats all "
                    "actions alike"
                )
            linear = np.minimum(linear, water_level(linear, self.peak))
        linear = linear - largest(linear)[:, None]
        # Dividing by a tiny weight may overflow to -inf, which stands for a probability of zero.
        with np.errstate(over="ignore"):
            if list(self.powers) == [0.0]:
                return np.asarray(softmax(linear / self.powers[0.0]))
            if list(self.powers) == [1.0] and even:
                return np.asarray(project(linear / self.powers[1.0]))
        return roots.multiplier(linear, self.powers)


def _uniform_on_top(linear: Rows, peak: Weights) -> Rows:
    """Minimise -<c, p> + w max(p): uniform on the top k, k maximising (c_1 + ... + c_k - w) / k."""
    order = np.argsort(-linear, axis=-1, kind="stable")
    descending = np.take_along_axis(linear, order, axis=-1)
    count = np.arange(1, linear.shape[-1] + 1)
    below_best = descending - descending[:, :1]
    gain = (np.cumsum(below_best, axis=-1) - peak[:, None]) / count
    # Rounding must not decide ties: take the first k that is best up to the last digits.
    last_digits = 8 * np.finfo(float).eps * (peak[:, None] + np.abs(gain))
    k = np.argmax(gain >= gain.max(-1, keepdims=True) - last_digits, axis=-1)[:, None] + 1
    p = np.zeros_like(linear)
    np.put_along_axis(p, order, (count <= k) / k, axis=-1)
    return p


def _solve_squared_tv(problem: Problem, old: Rows, lam: Weights) -> Rows:
    """Minimise with the drift lam TV(p, q)^2, where TV = sum (p - q)_+ on the simplex.

    TV^2 = max over w of w TV - w^2 / 4: for a price w per unit of TV the step has one more kink, at
    p_i = q_i, and the right price is w = 2 lam TV(p_w), found by bisection.
    """
    if not problem.powers:
        return _move_mass(problem.linear, old, lam)
    linear = problem.linear - problem.linear.max(-1, keepdims=True)

    def at_price(price: Weights) -> Rows:
        return roots.multiplier(linear, problem.powers, roots.Kink(old, price[:, None]))

    low, high = np.zeros(len(lam)), 2 * lam
    for _ in range(80):
        price = (low + high) / 2
        too_high = 2 * lam * _variation(at_price(price), old) < price
        low, high = np.where(too_high, low, price), np.where(too_high, price, high)
        if np.all(high - low <= 1e-15 * (1 + high)):
            break
    # Where p jumps within one rounding of the price, the right distance lies in between.
    far, near = at_price(low), at_price(high)
    most, least = _variation(far, old), _variation(near, old)
    span = np.maximum(most - least, 1e-14)
    share = np.clip((high / (2 * lam) - least) / span, 0, 1)[:, None]
    return share * far + (1 - share) * near


def _variation(p: Rows, q: Rows) -> Weights:
    return np.maximum(p - q, 0).sum(-1)


def _move_mass(linear: Rows, old: Rows, lam: Weights) -> Rows:
    """Minimise -<c, p> + lam TV(p, q)^2: mass moves from the worst actions to the best one.

    To move a unit from action i gains c_max - c_i, and the t-th unit costs 2 lam t. So mass is
    taken from the worst action first, and from each action until the cost exceeds the gain.
    """
    best = linear.argmax(-1)[:, None]
    order = np.argsort(linear, axis=-1, kind="stable")
    gain = linear.max(-1, keepdims=True) - np.take_along_axis(linear, order, axis=-1)
    held = np.take_along_axis(old, order, axis=-1)
    before = np.cumsum(held, axis=-1) - held
    moved = np.clip(gain / (2 * lam[:, None]) - before, 0, held)
    p = old.copy()
    np.put_along_axis(p, order, held - moved, axis=-1)
    kept = np.take_along_axis(p, best, axis=-1)
    np.put_along_axis(p, best, kept + moved.sum(-1, keepdims=True), axis=-1)
    return p


def objective(
    p: Any,
    q_values: Any,
    policy: Any,
    potential: Potential | str,
    drift: Drift | str,
    alpha: Any,
    lam: Any,
) -> Float64[np.ndarray, "*batch"]:
    """Return <p, -Q> + alpha h(p) + lam D(p, policy): what `mirror_step` minimises."""
    h, d = as_potential(potential), as_drift(drift)
    p, policy = np.asarray(p, float), np.asarray(policy, float)
    value = -(p * np.asarray(q_values, float)).sum(-1)
    alpha, lam = temperature("alpha", alpha), temperature("lam", lam)
    with np.errstate(invalid="ignore"):
        moved = np.where(lam > 0, lam * d.value(p, policy), 0)  # 0 * inf is 0: the drift is absent
    return np.asarray(value + alpha * h.value(p) + moved)


def best_response(
    q_values: Any, potential: Potential | str, alpha: Any
) -> Float64[np.ndarray, "*batch actions"]:
    """Return the regularised greedy policy, argmax over p of <p, Q> - alpha h(p)."""
    q_values = np.asarray(q_values, float)
    uniform = np.full(q_values.shape[-1], 1 / q_values.shape[-1])
    return mirror_step(q_values, uniform, potential, ZeroDrift(), alpha, 0.0)


# --- pairs with a user's own function -------------------------------------------------------------


@dataclass(frozen=True)
class _Objective:
    """The objective as one jax function; hashable, so that it is compiled once for a pair."""

    regularisers: tuple[Potential | Drift, ...]

    def __call__(self, p: jax.Array, c: jax.Array, *arrays: jax.Array) -> jax.Array:
        """Return the objective for the linear part c, then an anchor and a weight per term."""
        value = -jnp.dot(c, p)
        for part, anchor, weight in zip(self.regularisers, arrays[::2], arrays[1::2], strict=True):
            at = part.value(p, anchor) if isinstance(part, Drift) else part.value(p)
            value = value + weight * at
        return value


def _solve_convex(linear: Rows, old: Rows, terms: list[Term], subject: str) -> Rows:
    """Minimise -<linear, p> + the terms row by row; their sum must be smooth and convex in p."""
    arrays, starts = [linear], [old]
    for part, anchor, weight, anchor_name in terms:
        if isinstance(part, Drift) and part.infinite == "p > 0 = q" and not (anchor > 0).all():
            raise UserError(
                f"{anchor_name}: has zero entries, which '{part}' can never raise; with a user's "
                "own function give one that takes every action"
            )
        kinked = part.potential if isinstance(part, Divergence) else part
        if isinstance(kinked, Max | SquaredTV):
            raise UserError(
                f"{subject} has no exact mirror step: a user's own function needs a smooth "
                f"partner, and '{kinked}' has kinks"
            )
        arrays += [np.maximum(anchor, SMALLEST), weight]  # derivatives overflow at 1e-300
        starts += [anchor] if anchor_name == "reference" else []
    goal = _Objective(tuple(term.regulariser for term in terms))
    p = minimize_on_simplex(goal, tuple(arrays), linear.shape, subject, starts)
    return np.where((old == 0) & (p <= 1e3 * SMALLEST), 0, p)
