"""A reference policy as a potential: h(pi(s)) = d(pi(s), mu(s)), with d any drift.

The objective alpha d(pi, mu) + lambda D(pi, pi_k) keeps a policy near mu, as fine-tuning with a
reference model does, and lets each step move only a little. mu is

- `UNIFORM`, the uniform policy: to(uniform, kl) is entropy plus log n;
- a `Table` of probabilities, one row per state: for the exact solver;
- a `FrozenPolicy`, a network with fixed parameters: for training.

A frozen policy depends on the observation; `at_observations` returns the potential of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mirrorax.errors import UserError
from mirrorax.regularizers.drifts import Drift
from mirrorax.regularizers.drifts import drift as as_drift
from mirrorax.regularizers.functions import in_own_precision
from mirrorax.regularizers.potentials import Potential
from mirrorax.simplex import exact_log, log_softmax, namespace


@final
@dataclass(frozen=True)
class Uniform:
    """The policy that takes every action with the same probability."""

    def probabilities(self, num_actions: int) -> Any:
        """Return 1 / n for each action."""
        return np.full(num_actions, 1 / num_actions)

    def __str__(self) -> str:
        return "uniform"


UNIFORM = Uniform()


@final
@dataclass(frozen=True, eq=False)
class Table:
    """Fixed probabilities, [..., states, actions] or [actions]; they broadcast with a policy's."""

    array: Any
    #: their logarithms, where the table was made from logits
    log: Any = None

    def __post_init__(self) -> None:
        if self.log is not None:
            return
        array = np.asarray(self.array, float)
        off = np.abs(array.sum(-1) - 1) if array.ndim else np.ones(1)
        if not (array.ndim and (array >= 0).all() and (off <= 1e-6).all()):
            raise UserError(
                f"potential: to: the reference, of shape {array.shape}, must hold non-negative "
                "rows that sum to one"
            )
        object.__setattr__(self, "array", array)

    @classmethod
    def from_logits(cls, logits: Any) -> Table:
        """Return the table of softmax(logits), which jax may trace."""
        log = log_softmax(logits)
        return cls(namespace(log).exp(log), log)

    def probabilities(self, num_actions: int) -> Any:
        """Return the table, if it has this many actions."""
        if self.array.shape[-1] != num_actions:
            raise UserError(
                f"potential: to: the reference has {self.array.shape[-1]} actions, the policy "
                f"{num_actions}"
            )
        return self.array

    def __str__(self) -> str:
        return "table"


@final
@dataclass(frozen=True)
class FrozenPolicy:
    """A network with fixed parameters. Policies with the same parameters and digest are equal."""

    network: Any = field(compare=False, repr=False)  # a function of (parameters, observations)
    parameters: bytes = field(repr=False)
    #: a hash of the parameters and of the settings of the network
    digest: str

    def logits(self, x: Float[Any, "observation batch"]) -> Float[Any, "actions batch"]:
        """Return the logits at a batch of observations."""
        vector = jnp.asarray(np.frombuffer(self.parameters, np.float32))
        return jax.lax.stop_gradient(self.network(vector, x))

    def __str__(self) -> str:
        return "policy"


Reference = Uniform | Table | FrozenPolicy


@final
@dataclass(frozen=True)
class To(Potential):
    """h(p) = d(p, mu), the distance from a reference policy; convex where d is convex in p."""

    mu: Reference
    drift: Drift

    name = "to"

    def reference(self, num_actions: int) -> Any:
        """Return the probabilities of mu."""
        if isinstance(self.mu, FrozenPolicy):
            raise UserError(
                f"potential: {str(self)!r}: its reference is a network; it has values only at "
                "observations"
            )
        return self.mu.probabilities(num_actions)

    def range(self, num_actions: int) -> tuple[float, float]:
        """Return 0 and the largest distance of a vertex from mu, or inf where it has no bound.

        For a frozen policy the range is that of the uniform policy.
        """
        mu = UNIFORM if isinstance(self.mu, FrozenPolicy) else self.mu
        table = np.asarray(mu.probabilities(num_actions), float).reshape(-1, 1, num_actions)
        shape = (len(table), num_actions, num_actions)
        vertices, rows = (np.broadcast_to(x, shape) for x in (np.eye(num_actions), table))
        return 0.0, float(np.max(self.drift.value(vertices, rows)))

    def _like(self, p: Any) -> Any:
        mu = self.reference(p.shape[-1])
        return namespace(p).asarray(mu, p.dtype)

    def _at(self, p: Any) -> Any:
        return self.drift.value(p, self._like(p))

    def _grad(self, p: Any) -> Any:
        mu = namespace(p).broadcast_to(self._like(p), p.shape)
        return in_own_precision(lambda p, mu: self.drift._slopes(p, mu)[0], p, mu)

    def _value_from_log(self, logp: Any) -> Any:
        known = getattr(self.mu, "log", None)
        log_mu = exact_log(self._like(logp)) if known is None else known
        return self.drift.value_from_log(logp, namespace(logp).broadcast_to(log_mu, logp.shape))

    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return self._at(p) - self._at(q) - (self._grad(q) * (p - q)).sum(-1)


def to(mu: str | Reference, drift: str | Drift) -> To:
    """Return the potential to(mu, drift); `mu` is a reference object or the word `uniform`."""
    if not isinstance(mu, str):
        return To(mu, as_drift(drift))
    if mu != "uniform":
        raise UserError(
            f"potential: to: the reference {mu!r} is a saved policy; give its folder as `reference`"
        )
    return To(UNIFORM, as_drift(drift))


def at_observations(potential: Potential, x: Float[Any, "observation batch"]) -> Potential:
    """Return the potential at a batch of observations: a frozen policy becomes a table there.

    Every other potential is returned unchanged.
    """
    if not (isinstance(potential, To) and isinstance(potential.mu, FrozenPolicy)):
        return potential
    return To(Table.from_logits(potential.mu.logits(x).T), potential.drift)
