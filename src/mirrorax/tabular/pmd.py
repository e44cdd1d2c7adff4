"""Policy Mirror Descent with exact steps, equations (5) and (6) of the paper, and its trace.

pi_{k+1}(s) = argmin over p of  <p, -Q^{pi_k}(s)> + alpha_k h(p) + lambda_k D(p, pi_k(s))
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float64

from mirrorax import registry
from mirrorax.errors import UserError, unknown
from mirrorax.files import check_target, write_file
from mirrorax.formatting import Shown, check_whole
from mirrorax.regularizers.drifts import Divergence, Drift, reference_drift
from mirrorax.regularizers.drifts import drift as as_drift
from mirrorax.regularizers.potentials import Max, Potential
from mirrorax.regularizers.potentials import potential as as_potential
from mirrorax.tabular.evaluation import Optimum, evaluate, optimum, uniform_policy
from mirrorax.tabular.inputs import check_policy, random_generator, temperature
from mirrorax.tabular.mdp import MDP, check_mdp
from mirrorax.tabular.mirror import mirror_step

#: one number for each MDP and temperature
Grid: TypeAlias = Float64[np.ndarray, "*batch"]

#: the logarithms of the smallest and the largest learned lambda
LOG_BOUNDS = (-20.0, 12.0)


@dataclass(frozen=True)
class LearnedLam:
    """A learned lambda, like `lam_schedule = "learned"` in training; pass it as `lam`.

    Dual ascent on log lambda keeps the mean drift of a step over the states at v D_ref:

        log lambda_{k+1} = log lambda_k + rate clip(E_s[D(pi_{k+1}(s), pi_k(s))] / (v_k D_ref) - 1)

    with v_k = v, or v (1 - k / K) where the target is annealed, D_ref the `reference_drift` of the
    drift, and clip to [-1, 1]. Each MDP and temperature of a batch has its own lambda, which starts
    at 1. Near a fixed point the drift vanishes and lambda falls to its lower bound.
    """

    v: float
    rate: float = 0.5
    annealed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.v <= 1:
            raise UserError(f"v: {self.v!r} is not allowed: above 0, at most 1")
        if not 0 < self.rate <= 2:
            raise UserError(f"rate: {self.rate!r} is not allowed: above 0, at most 2")

    def after(self, lam: Grid, drift: Grid, reference: float, progress: float) -> Grid:
        """Return the next lambda, after a step with this mean drift; `progress` is k / K."""
        target = self.v * reference * ((1 - progress) if self.annealed else 1.0)
        excess = np.clip(drift / target - 1, -1.0, 1.0)
        low, high = LOG_BOUNDS
        return np.asarray(np.exp(np.clip(np.log(lam) + self.rate * excess, low, high)))


#: a temperature: a number, an array of them (a grid, on leading axes), or a function of k
Temperature = float | np.ndarray | Callable[[int], Any]
#: lambda may also be learned
DriftTemperature = Temperature | LearnedLam

Critic = Literal["regularized", "unregularized"]


@dataclass(frozen=True, repr=False)
class Trace(Shown):
    """The record of K iterations. Axis 0 counts them; entry 0 is the first policy.

    `values`, `gap` and `optimum` are those of the MDP regularised with `reference_alpha`: alpha
    where it is constant, 0 where it is a function of k.
    """

    policies: Float64[np.ndarray, "iterations *batch states actions"]
    values: Float64[np.ndarray, "iterations *batch states"]
    gap: Float64[np.ndarray, "iterations *batch"]  # max over states of V* - V
    policy_change: Float64[np.ndarray, "steps *batch"]  # max over states of TV(pi_{k+1}, pi_k)
    policy_distance: Float64[np.ndarray, "iterations *batch"]  # max over states of TV(pi_k, pi*)
    returns: Float64[np.ndarray, "iterations *batch"]  # value of the initial distribution
    alphas: Float64[np.ndarray, "steps *batch"]
    lams: Float64[np.ndarray, "steps *batch"]
    optimum: Optimum
    reference_alpha: Grid
    promised_rate: Grid | None

    def _summary(self) -> tuple[str, list[list[str]]]:
        last = len(self.gap) - 1
        *batch, states, actions = self.policies.shape[1:]
        grid = f", {' x '.join(map(str, batch))} pairs of temperatures" if batch else ""
        title = f"{last} iterations, {states} states, {actions} actions{grid}"
        rows = [["iteration", "largest gap", "mean return"]]
        for k in sorted({0, last // 2, last}):
            rows.append([str(k), f"{self.gap[k].max():.3e}", f"{self.returns[k].mean():.6f}"])
        return title, rows

    def _picture(self, ax: Any) -> Any:
        return self.plot(ax)

    def plot(self, ax: Any = None) -> Any:
        """Draw the gap to the optimum on a log axis, with the promised rate; return the axis."""
        from mirrorax.tabular.figures import convergence

        style = importlib.import_module("mirrorax.figures.style")  # of a room above
        with style.drawing(ax) as ax:
            return convergence(self, ax)

    def to_pandas(self) -> Any:
        """Return a data frame with one row per iteration; of a grid, per iteration and cell."""
        pandas = registry.optional_package("pandas")
        columns = {"gap": self.gap, "return": self.returns, "policy_distance": self.policy_distance}
        columns |= self._temperatures()
        index = [range(n) for n in self.gap.shape]
        frame = pandas.DataFrame(
            {name: column.ravel() for name, column in columns.items()},
            pandas.MultiIndex.from_product(index, names=["iteration", *self._axes]),
        )
        return frame if self._axes else frame.reset_index().set_index("iteration")

    @property
    def _axes(self) -> list[str]:
        return [f"grid_{i}" for i in range(self.gap.ndim - 1)]

    def _temperatures(self) -> dict[str, np.ndarray]:
        """Return those of the step from each iteration; at the last, those of the step to it."""
        steps = np.minimum(np.arange(len(self.gap)), len(self.alphas) - 1)
        if not len(self.alphas):
            return {name: np.full(self.gap.shape, np.nan) for name in ("alpha", "lam")}
        return {"alpha": self.alphas[steps], "lam": self.lams[steps]}

    def to_xarray(self) -> Any:
        """Return a dataset over iterations, grid axes, states and actions."""
        over = ("iteration", *self._axes)
        names = {
            **{name: (over, values) for name, values in self._temperatures().items()},
            "gap": (over, self.gap),
            "return": (over, self.returns),
            "policy_distance": (over, self.policy_distance),
            "value": ((*over, "state"), self.values),
            "policy": ((*over, "state", "action"), self.policies),
        }
        return registry.optional_package("xarray").Dataset(names)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the arrays to a file that ends in .npz; `mirrorax.load` gives the trace back."""
        check_target("path", os.fspath(path), (".npz",))
        arrays = {**vars(self), **{f"optimum.{k}": v for k, v in vars(self.optimum).items()}}
        del arrays["optimum"]
        data = io.BytesIO()
        np.savez(data, **{name: array for name, array in arrays.items() if array is not None})
        write_file(path, data.getvalue(), "path")
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Return the trace of a file that `save` has written."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            v, policy, error = (arrays.pop(f"optimum.{k}") for k in ("v", "policy", "error"))
            best = Optimum(v, policy, float(error))
            return cls(**{"promised_rate": None, **arrays, "optimum": best})
        except (OSError, ValueError, KeyError, TypeError, EOFError) as wrong:
            raise UserError(f"path: {str(path)!r} is not a saved trace: {wrong}") from None

    @property
    def policy(self) -> Float64[np.ndarray, "*batch states actions"]:
        """The last policy."""
        return self.policies[-1]

    @property
    def measured_rate(self) -> Grid:
        """The geometric mean of the factors by which each step shrank the gap.

        Only iterations whose gap is above 1e-9 of the first gap, and above rounding, count. It is
        NaN if there are none after the first.
        """
        floor = 1e-9 * self.gap[0] + 100 * self.optimum.error
        clear = np.cumprod(self.gap > floor, axis=0)
        last = np.maximum(clear.sum(axis=0) - 1, 0)
        end = np.take_along_axis(self.gap, last[None], axis=0)[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(last > 0, (end / self.gap[0]) ** (1 / np.maximum(last, 1)), np.nan)


def promised_rate(
    gamma: float, potential: Potential | str, drift: Drift | str, alpha: Any, lam: Any
) -> Grid | None:
    """Return the linear rate that theory promises, (lam + gamma alpha) / (lam + alpha), or None.

    The promise is an upper bound for alpha > 0, a smooth h and D = Bregman(h) (Lan 2023; Zhan et
    al. 2023). There is none for another drift, or for max with a fixed choice of subgradient. In
    a grid of temperatures the rate is NaN where alpha = 0.
    """
    h, d = as_potential(potential), as_drift(drift)
    alpha, lam = temperature("alpha", alpha), temperature("lam", lam)
    own = d.potential if isinstance(d, Divergence) else None
    same = own is not None and (own == h or (h.powers is not None and own.powers == h.powers))
    if not same or isinstance(h, Max) or h.powers == () or not (alpha > 0).any():
        return None
    with np.errstate(invalid="ignore"):
        return np.where(alpha > 0, (lam + gamma * alpha) / (lam + alpha), np.nan)


def solve(
    mdp: MDP,
    potential: Potential | str = "entropy",
    drift: Drift | str = "kl",
    alpha: Temperature = 0.01,
    lam: DriftTemperature = 0.1,
    iterations: int = 50,
    *,
    critic: Critic | str = "regularized",
    policy: Any = None,
    noise: Any = 0.0,
    seed: int | np.random.Generator = 0,
) -> Trace:
    """Run Policy Mirror Descent from pi_0 and return its trace.

        pi_{k+1}(s) = argmin over p of  <p, -Q(s)> + alpha_k h(p) + lambda_k D(p, pi_k(s))

    Args:
        mdp: the MDP, or a batch of them.
        potential: h, an object or a name.
        drift: D, an object or a name.
        alpha: the temperature of h: a number, an array (a grid of temperatures solved at once, on
            axes before those of the states) or a function of k = 0, 1, ...
        lam: the temperature of D, likewise; or a `LearnedLam`, which keeps the drift at a target.
        iterations: the number of steps.
        critic: "regularized" steps along Q_alpha; "unregularized" along the plain Q (APMD), whose
            fixed point is not the regularised optimum.
        policy: the first policy, [..., states, actions]; uniform if not given.
        noise: the standard deviation of normal noise added to Q before each step (inexact PMD).
        seed: of that noise; a number or a numpy Generator.
    """
    check_mdp(mdp)
    h, d = as_potential(potential), as_drift(drift)
    if critic not in ("regularized", "unregularized"):
        raise unknown("critic", critic, ("regularized", "unregularized"))
    check_whole("iterations", iterations)
    spread, generator = temperature("noise", noise), random_generator(seed)
    learned = lam if isinstance(lam, LearnedLam) else None
    alpha_at = _schedule("alpha", alpha)
    lam_at = _schedule("lam", 1.0 if isinstance(lam, LearnedLam) else lam)
    size = reference_drift(d, mdp.num_actions) if learned else 1.0
    first = uniform_policy(mdp) if policy is None else check_policy(policy, mdp.rewards.shape[-2:])
    # One policy per MDP and temperature, from the start, so that every trace has the same shape.
    sizes = {
        "mdp": mdp.batch,
        "policy": first.shape[:-2],
        "alpha": alpha_at(0).shape,
        "lam": lam_at(0).shape,
        "noise": spread.shape,
    }
    try:
        batch = np.broadcast_shapes(*sizes.values())
    except ValueError:
        shapes = ", ".join(f"{name} {shape}" for name, shape in sizes.items() if shape)
        raise UserError(f"alpha, lam: the axes before the states do not fit: {shapes}") from None
    reference = np.broadcast_to(0.0 if callable(alpha) else alpha_at(0), batch)
    best = optimum(mdp, h, reference)

    policies = np.zeros((iterations + 1, *batch, mdp.num_states, mdp.num_actions))
    values = np.zeros(policies.shape[:-1])
    alphas, lams = np.zeros((2, iterations, *batch))
    learned_lam = np.ones(batch)
    policies[0] = first
    for k in range(iterations + 1):
        exact = evaluate(mdp, policies[k], h, reference)
        values[k] = exact.v
        if k == iterations:
            break
        alphas[k] = alpha_at(k)
        lams[k] = learned_lam if learned else lam_at(k)
        critic_alpha = alphas[k] if critic == "regularized" else np.zeros(())
        q = exact.q
        if not np.all(critic_alpha == reference):
            q = evaluate(mdp, policies[k], h, critic_alpha).q
        if spread.any():
            q = q + spread[..., None, None] * generator.standard_normal(q.shape)
        policies[k + 1] = mirror_step(
            q, policies[k], h, d, alphas[k, ..., None], lams[k, ..., None]
        )
        if learned:
            mean_drift = np.asarray(np.mean(d.value(policies[k + 1], policies[k]), axis=-1))
            learned_lam = learned.after(learned_lam, mean_drift, size, k / iterations)

    changing = callable(alpha) or callable(lam) or learned or critic != "regularized"
    promised = None
    if not (changing or spread.any()):
        promised = promised_rate(mdp.gamma, h, d, alpha_at(0), lam_at(0))
    return Trace(
        policies=policies,
        values=values,
        gap=(best.v - values).max(-1),
        policy_change=_distance(policies[1:], policies[:-1]),
        policy_distance=_distance(policies, best.policy),
        returns=(values * mdp.initial).sum(-1),
        alphas=alphas,
        lams=lams,
        optimum=best,
        reference_alpha=reference,
        promised_rate=None if promised is None else np.broadcast_to(promised, batch),
    )


def _schedule(field: str, value: Temperature) -> Callable[[int], Any]:
    """Return a temperature as a checked function of k."""
    if not callable(value):
        constant = temperature(field, value)
        return lambda k: constant
    shape = temperature(f"{field}(0)", value(0)).shape

    def scheduled(k: int) -> Any:
        at_k = temperature(f"{field}({k})", value(k))
        if at_k.shape != shape:
            raise UserError(f"{field}({k}): shape {at_k.shape} after {shape} at k = 0")
        return at_k

    return scheduled


def _distance(p: Any, q: Any) -> Any:
    """Return the largest total variation distance over the states."""
    return np.abs(p - q).sum(-1).max(-1) / 2
