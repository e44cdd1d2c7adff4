"""Optimisers: optax transformations of a gradient, without a learning rate.

The learning rate differs from lane to lane, so the trainer multiplies by it. One of your own is a
function of the settings that returns a `optax.GradientTransformation`, registered under a name:

    mirrorax.register_optimizer("lion", lambda settings: optax.scale_by_lion())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import Array, Float

from mirrorax import plugins
from mirrorax.errors import UserError, in_one_line
from mirrorax.runs.settings import Settings

BUILT_IN: dict[str, Callable[[Settings], optax.GradientTransformation]] = {
    "adam": lambda settings: optax.scale_by_adam(eps=settings.adam_eps),
    "rmsprop": lambda settings: optax.scale_by_rms(eps=settings.adam_eps),
    "sgd": lambda settings: optax.identity(),
}


def make_optimizer(settings: Settings) -> optax.GradientTransformation:
    """Return the optimiser of the settings: the gradient is clipped, then transformed."""
    factory = BUILT_IN.get(settings.optimizer) or plugins.registered(
        "optimizer", settings.optimizer
    )
    try:
        transformation = factory(settings)
        init, update = transformation.init, transformation.update
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"optimizer: {settings.optimizer!r}: {in_one_line(error)}") from None
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.GradientTransformation(init, update),
    )


def descend(
    optimizer: optax.GradientTransformation,
    parameters: Float[Array, " p"],
    gradient: Float[Array, " p"],
    state: Any,
    learning_rate: Float[Array, ""],
) -> tuple[Float[Array, " p"], Any]:
    """Take one step: parameters - learning_rate * direction."""
    direction, state = optimizer.update(gradient, state, parameters)
    move = lambda p, d: p - learning_rate * d  # noqa: E731
    return jax.tree.map(move, parameters, direction), state
