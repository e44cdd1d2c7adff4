"""Tsallis 0.5 with its sign turned: would such a slip explain rows I and K of Table 1?

The paper's h is -H_m with H_m(p) = sum(p - p^m) / (m - 1), which is convex. The sign can be wrong
in both places where h is used, in the critics' target alone (its value) or in the actor's loss
alone (its derivative). None is a reading of the paper; docs/reproduction.md compares them.
"""

import jax

import mirrorax

M = 0.5


def _entropy(p):
    return (p - p**M).sum() / (M - 1)


@mirrorax.register_potential("flipped_tsallis")
def flipped_tsallis(p):
    return _entropy(p)


@mirrorax.register_potential("flipped_in_critic")
def flipped_in_critic(p):
    return 2 * jax.lax.stop_gradient(_entropy(p)) - _entropy(p)


@mirrorax.register_potential("flipped_in_actor")
def flipped_in_actor(p):
    return _entropy(p) - 2 * jax.lax.stop_gradient(_entropy(p))
