"""Numerics on the probability simplex, for numpy and jax arrays alike.

Every function acts on the last axis. numpy computes with numpy arrays, in their own precision, and
jax with jax arrays: float64 input never silently becomes float32 where jax's x64 mode is off.

Two conventions hold throughout mirrorax.

- **Zero probabilities.** `p = 0` is a legal entry. Where a formula has a limit there (`p log p`),
  the limit is computed. Where it has none (the gradient of the entropy), the entry counts
  as `probability_floor(dtype)`: 1e-300 in float64, 1e-30 in float32 and bfloat16, 1e-7 in float16.
  Gradients at the boundary are thus large and finite.
- **Log-probabilities.** Functions of logits use `log_softmax`, which is exact where probabilities
  underflow.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

#: a real array of either library; numpy's own scalars are arrays without axes
Array: TypeAlias = jax.Array | np.ndarray | np.floating
#: numbers over the actions, such as probabilities or logits, and one number in place of each row
Rows: TypeAlias = Float[Array, "*batch actions"]
Values: TypeAlias = Float[Array, "*batch"]

#: the finite stand-in for log(0): exp of any sensible multiple of it is 0, and 0 times it is 0
LOG_ZERO = -1e30


def namespace(*arrays: object) -> ModuleType:
    """Return the library that computes with these: jax.numpy if any is a jax array, else numpy."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def as_real(xp: ModuleType, *arrays: object) -> tuple[Any, ...]:
    """Convert to floating arrays of one common precision (integers become the default float)."""
    converted = [xp.asarray(a) for a in arrays]
    dtype = xp.result_type(*converted)
    if not xp.issubdtype(dtype, xp.floating):
        dtype = xp.zeros((), float).dtype
    return tuple(a.astype(dtype) for a in converted)


def probability_floor(dtype: Any) -> float:
    """Return the probability a zero entry counts as where a formula has no finite limit at 0."""
    return {np.dtype("float64"): 1e-300, np.dtype("float16"): 1e-7}.get(np.dtype(dtype), 1e-30)


def floored_log(p: Rows) -> Rows:
    """Return log(p), with entries below the floor counted as the floor."""
    xp, floor = namespace(p), probability_floor(p.dtype)
    above = p > floor
    # The inner choice keeps derivatives below the floor at 0, not at 0 times infinity.
    return xp.where(above, xp.log(xp.where(above, p, 1)), math.log(floor))


def is_zero(p: Rows) -> Any:
    """Return where p is zero, and not merely subnormal, which jax on the CPU takes for zero."""
    if not isinstance(p, jax.Array):
        return p == 0
    # The sign bit stays: without it the compiler would turn this into a comparison of floats.
    return jax.lax.bitcast_convert_type(p, f"uint{8 * p.dtype.itemsize}") == 0


def exact_log(p: Rows) -> Rows:
    """Return log(p), with the finite `LOG_ZERO` at p = 0, so that 0 * log 0 is 0.

    On jax arrays a subnormal entry counts as the smallest normal number.
    """
    xp, zero = namespace(p), is_zero(p)
    positive = xp.where(zero, 1, p)
    if isinstance(p, jax.Array):
        tiny = jnp.finfo(p.dtype).tiny  # type: ignore[no-untyped-call]
        positive = jnp.maximum(positive, tiny)
    return xp.where(zero, LOG_ZERO, xp.log(positive))


def total(x: Any) -> Values:
    """Return the sum over the actions (numpy adds up a short last axis fastest as a product)."""
    return x.sum(-1) if isinstance(x, jax.Array) else x @ np.ones(x.shape[-1], x.dtype)


def largest(x: Any) -> Any:
    """Return the maximum over the actions (numpy is fastest on a short last axis by columns)."""
    if isinstance(x, jax.Array) or x.shape[-1] > 16:
        return x.max(-1)
    return functools.reduce(np.maximum, (x[..., i] for i in range(x.shape[-1])))


def log_softmax(logits: Rows) -> Rows:
    """Return the log-probabilities of these logits."""
    if isinstance(logits, jax.Array):
        return jax.nn.log_softmax(logits, axis=-1)
    shifted = logits - largest(logits)[..., None]
    return shifted - np.log(total(np.exp(shifted)))[..., None]


def softmax(logits: Rows) -> Rows:
    """Return the probabilities of these logits."""
    xp = namespace(logits)
    return xp.exp(log_softmax(logits))


def action_index(x: Array) -> Array:
    """Return 0, 1, ..., n - 1 along the last axis, with as many axes as x."""
    n = x.shape[-1]
    return namespace(x).arange(n).reshape((1,) * (x.ndim - 1) + (n,))


def project(x: Rows) -> Rows:
    """Return the Euclidean projection onto the simplex, argmin over p of ||p - x||^2.

    The minimiser is max(x - mu, 0), where mu makes it sum to one: `water_level(x, 1)`.
    """
    xp = namespace(x)
    return xp.maximum(x - water_level(x, xp.ones(x.shape[:-1], x.dtype)), 0)


def water_level(x: Rows, amount: Values) -> Float[Array, "*batch 1"]:
    """Return the level nu at which cutting off the peaks removes `amount`: sum (x - nu)_+ = amount.

    This is the whole effect of adding `amount * max(p)` to a symmetric separable objective: the
    linear term x becomes min(x, nu).
    """
    xp = namespace(x, amount)
    descending = -xp.sort(-x, axis=-1)
    count = 1 + action_index(x)
    level = (xp.cumsum(descending, axis=-1) - xp.asarray(amount)[..., None]) / count
    # The k highest peaks are cut for the largest k whose level lies below the k-th peak.
    cut = xp.maximum(xp.sum(descending > level, axis=-1, keepdims=True), 1)
    return xp.take_along_axis(level, cut - 1, axis=-1)
