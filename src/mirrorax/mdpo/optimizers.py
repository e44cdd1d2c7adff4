"""Optimisers: optax transformations of a gradient, without a learning rate.

The learning rate differs from lane to lane, so the trainer multiplies by it. A new built-in is one
line of `BUILT_IN`. One of your own is the same function, registered under a name:

    mirrorax.register_optimizer("lion", lambda settings: optax.scale_by_lion())

Importing this module does not import jax: `mirrorax.runs.settings` reads the names in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxtyping import Float

from mirrorax import registry
from mirrorax.errors import UserError, in_one_line

if TYPE_CHECKING:
    import jax
    import optax
    from jaxtyping import Array

    from mirrorax.runs.settings import Settings
else:
    jax, optax, Array = registry.LazyModule("jax"), registry.LazyModule("optax"), Any

BUILT_IN: dict[str, Callable[[Settings], optax.GradientTransformation]] = {
    "adam": lambda settings: optax.scale_by_adam(eps=settings.adam_eps),
    "rmsprop": lambda settings: optax.scale_by_rms(eps=settings.adam_eps),
    "sgd": lambda settings: optax.identity(),
}


#: what `mirrorax list` says of each
ABOUT = {
    "adam": "Adam, with --adam-eps",
    "rmsprop": "RMSProp, with --adam-eps",
    "sgd": "plain gradient descent",
}


def make_optimizer(settings: Settings) -> optax.GradientTransformation:
    """Return the optimiser of the settings: the gradient is clipped, then transformed."""
    name = settings.optimizer
    factory = BUILT_IN.get(name) or registry.registered("optimizer", name)
    try:
        transformation = factory(settings)
        init, update = transformation.init, transformation.update
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"optimizer: {name!r}: {in_one_line(error)}") from None
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.GradientTransformation(init, update),
    )


def descend(
    optimizer: optax.GradientTransformation,
    parameters: Float[Array, "*p"],
    gradient: Float[Array, "*p"],
    state: Any,
    learning_rate: Float[Array, ""],
) -> tuple[Float[Array, "*p"], Any]:
    """Take one step: parameters - learning_rate * direction."""
    direction, state = optimizer.update(gradient, state, parameters)
    return jax.tree.map(lambda p, d: p - learning_rate * d, parameters, direction), state
