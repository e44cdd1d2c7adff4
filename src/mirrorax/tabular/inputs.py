"""Checks of the arguments of the exact solver; each mistake is an error of one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrorax.errors import UserError


def numbers(field: str, value: Any) -> Any:
    """Convert to an array of floats; a `UserError` if that is not possible."""
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise UserError(f"{field}: {value!r:.60} is not allowed: numbers") from None


def temperature(field: str, value: Any) -> Any:
    """Check a temperature: finite and not negative, a number or an array."""
    array = numbers(field, value)
    allowed = np.isfinite(array) & (array >= 0)
    if not allowed.all():
        raise UserError(
            f"{field}: {array[~allowed].flat[0]!s} is not allowed: a finite number >= 0"
        )
    return array


def check_policy(policy: Any, shape: tuple[int, ...] = ()) -> Any:
    """Check that every row is a probability vector, and return the policy as an array.

    `shape` is the (states, actions) of the MDP that the policy is for, if any.
    """
    policy = numbers("policy", policy)
    if shape and policy.shape[-2:] != shape:
        raise UserError(
            f"policy: shape {policy.shape} is not allowed: [..., {shape[0]}, {shape[1]}], the "
            "states and actions of the MDP"
        )
    with np.errstate(invalid="ignore"):
        off = np.abs(policy @ np.ones(policy.shape[-1]) - 1)
        if policy.min(initial=0) >= 0 and off.max(initial=0) <= 1e-6:
            return policy
        bad = ~((policy >= 0).all(-1) & (off <= 1e-6))
    where = tuple(int(i) for i in np.argwhere(bad)[0])
    raise UserError(
        f"policy: row {where} is {policy[where]}; each must be non-negative and sum to one"
    )


def random_generator(seed: Any) -> np.random.Generator:
    """Return the generator of a seed, or the generator given."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise UserError(
            f"seed: {seed!r} is not allowed: a whole number >= 0 or a numpy Generator"
        ) from None
