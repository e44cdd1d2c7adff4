"""A potential and a drift of one's own: Burg's entropy and the squared Hellinger distance.

mirrorax solve --plugin my_regularisers --potential burg --drift hellinger --alpha 0.01 --lam 0.1
"""

import jax.numpy as jnp

import mirrorax

__version__ = "1.0"  # part of the identity of every run with one of these names


@mirrorax.register_potential("burg")
def burg(p):
    """Return h(p) = - mean log p_i, convex, least at the uniform policy."""
    return -jnp.log(p).mean()


@mirrorax.register_drift("hellinger")
def hellinger(p, q):
    """Return D(p, q) = sum (sqrt p_i - sqrt q_i)^2, zero where p = q and with zero slope there."""
    return ((jnp.sqrt(p) - jnp.sqrt(q)) ** 2).sum()


if __name__ == "__main__":  # python my_regularisers.py: is it what the theory asks for?
    print(mirrorax.check_potential("burg"))
    print(mirrorax.check_drift("hellinger"))
