"""Networks and the optimisers that train them.

A network is a pair of functions, `init` and `apply`; observations are the columns of a matrix.
Built in are `mlp`, a perceptron, and `conv`, one convolution in front of it. A new one is a
function of a `NetworkSpec` that returns the pair, and its entry in `NETWORKS`. One of your own is
the same function, registered under a name:

    def linear(spec):
        def init(rng):
            return np.zeros((spec.outputs, math.prod(spec.observation)))

        def apply(weight, x):  # x: [observation, batch]
            return weight @ x

        return Network(init, apply)

    mirrorax.register_network("linear", linear)

With the batch on the last axis the thin products of the first and last layer run along it, and a
softmax over a handful of actions is a few additions of long vectors. The trainer keeps the
parameters of a network as one vector (`FlatNetwork`): a lane's whole network moves as one slice.

An optimiser is an optax transformation of a gradient, without a learning rate: that differs from
lane to lane, so the trainer multiplies by it. A new one is an entry of `OPTIMIZERS`; of your own:

    mirrorax.register_optimizer("lion", lambda settings: optax.scale_by_lion())

Importing this module does not import jax: `mirrorax.runs.settings` reads the names in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from mirrorax import registry
from mirrorax.errors import UserError, in_one_line
from mirrorax.registry import BuiltIn

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
    from jaxtyping import Array

    from mirrorax.runs.settings import Settings
else:
    jax, jnp, optax = map(registry.LazyModule, ("jax", "jax.numpy", "optax"))
    Array = Any

Activation = Literal["tanh", "relu"]
Initialization = Literal["orthogonal", "uniform", "lecun_normal"]

#: side of the convolution's windows, and the number of filters
WINDOW, FILTERS = 3, 16


class NetworkSpec(NamedTuple):
    """What a network is built for."""

    #: the shape of an observation before it is flattened
    observation: tuple[int, ...]
    outputs: int
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    initialization: Initialization = "orthogonal"
    #: gain of the output layer's weights, with the initialisation `orthogonal`
    gain: float = 0.01


class Network(NamedTuple):
    """A pair of functions. `init` draws parameters: a pytree of arrays. `apply` uses them.

    `apply` treats every column by itself: columns that are equal may be given only once.

    `init` runs on the host, with numpy, for one network at a time. Batched LAPACK calls, such as
    the QR of an orthogonal initialisation, can deadlock XLA's thread pool on two cores.
    """

    init: Callable[[np.random.Generator], Any]
    apply: Callable[[Any, Float[Array, "observation batch"]], Float[Array, "outputs batch"]]
    #: turns parameters into a form with which `apply` is faster for small batches
    for_small_batches: Callable[[Any], Any] = lambda parameters: parameters


class Layer(NamedTuple):
    """The parameters of one layer: y = weight @ x + bias."""

    weight: Float[Array, "out in"] | Float[np.ndarray, "out in"]
    bias: Float[Array, " out"] | Float[np.ndarray, " out"]

    def __call__(self, x: Float[Array, "in batch"]) -> Float[Array, "out batch"]:
        """Return weight @ x + bias, for every column of `x`."""
        return _add_bias()(jnp.asarray(self.weight) @ x, jnp.asarray(self.bias))


class TransposedLayer(NamedTuple):
    """The same layer for small batches, such as the environments of one run.

    For these XLA is faster if the batch is the rows, not the columns: a rollout of CartPole then
    takes two thirds of the time.
    """

    weight: Float[Array, "in out"]
    bias: Float[Array, " out"]

    def __call__(self, x: Float[Array, "in batch"]) -> Float[Array, "out batch"]:
        """Return what the layer returns."""
        return (x.T @ self.weight + self.bias[None]).T


@lru_cache(maxsize=1)
def _add_bias() -> Callable[[Array, Array], Array]:
    """Return the function x + bias. Its gradient sums over the batch by a product with ones.

    XLA does not vectorise that sum as a reduction: the product saves 5% of a network's gradient.
    """

    @jax.custom_vjp
    def add(x: Array, bias: Array) -> Array:
        return x + bias[:, None]

    add.defvjp(
        lambda x, bias: (add(x, bias), None),
        lambda _, slope: (slope, slope @ jnp.ones(slope.shape[-1])),
    )
    return add


def mlp(spec: NetworkSpec) -> Network:
    """Return a perceptron on the flat observation."""
    sizes = (math.prod(spec.observation), *spec.hidden, spec.outputs)
    activation = getattr(jax.nn, spec.activation)

    def init(rng: np.random.Generator) -> tuple[Layer, ...]:
        shapes = [(n, m) for m, n in itertools.pairwise(sizes)]
        return tuple(_draw_layers(rng, spec, shapes))

    def apply(
        layers: tuple[Layer | TransposedLayer, ...], x: Float[Array, "observation batch"]
    ) -> Float[Array, "outputs batch"]:
        for layer in layers[:-1]:
            x = activation(layer(x))
        return layers[-1](x)

    def for_small_batches(layers: tuple[Layer, ...]) -> tuple[TransposedLayer, ...]:
        return tuple(TransposedLayer(jnp.asarray(w).T, jnp.asarray(b)) for w, b in layers)

    return Network(init, apply, for_small_batches)


def conv(spec: NetworkSpec) -> Network:
    """Return a convolution of 3 x 3 windows, without padding, in front of a perceptron.

    The small network of the MinAtar paper (Young and Tian, 2019): 16 filters, then dense layers.
    Observations are images of shape [rows, columns, channels].
    """
    if not is_image(spec.observation):
        shape = " x ".join(map(str, spec.observation))
        raise UserError(
            f"network: 'conv' needs observations of rows x columns x channels, at least "
            f"{WINDOW} x {WINDOW}; here they are {shape}; use 'mlp' or 'auto'"
        )
    rows, columns, channels = spec.observation
    height, width = rows - WINDOW + 1, columns - WINDOW + 1
    body = mlp(spec._replace(observation=(FILTERS, height, width)))
    activation = getattr(jax.nn, spec.activation)

    def init(rng: np.random.Generator) -> tuple[Layer, tuple[Layer, ...]]:
        inner = spec._replace(gain=math.sqrt(2))  # it is no output layer
        (first,) = _draw_layers(rng, inner, [(FILTERS, WINDOW * WINDOW * channels)])
        return first, body.init(rng)

    def apply(
        layers: tuple[Layer, tuple[Layer, ...]], x: Float[Array, "observation batch"]
    ) -> Float[Array, "outputs batch"]:
        batch = x.shape[-1]
        images = x.reshape(rows, columns, channels, batch)
        corners = itertools.product(range(WINDOW), repeat=2)
        shifted = jnp.stack([images[i : i + height, j : j + width] for i, j in corners])
        # [windows, rows, columns, channels, batch] -> [windows and channels, places and batch]
        patches = jnp.moveaxis(shifted, 3, 1).reshape(WINDOW * WINDOW * channels, -1)
        return body.apply(layers[1], activation(layers[0](patches)).reshape(-1, batch))

    def for_small_batches(
        layers: tuple[Layer, tuple[Layer, ...]],
    ) -> tuple[Layer, tuple[TransposedLayer, ...]]:
        return layers[0], body.for_small_batches(layers[1])  # the windows are many columns

    return Network(init, apply, for_small_batches)


def is_image(observation: tuple[int, ...]) -> bool:
    """Whether observations of this shape can be convolved."""
    return len(observation) == 3 and min(observation[:2]) >= WINDOW


def _draw_layers(
    rng: np.random.Generator, spec: NetworkSpec, shapes: list[tuple[int, int]]
) -> list[Layer]:
    """Draw layers of these shapes, (outputs, inputs); the last one has the gain of the spec.

    `orthogonal`: orthogonal weights of gain sqrt(2), biases zero.
    `uniform`: weights and biases uniform in +-1/sqrt(inputs).
    `lecun_normal`: normal weights of variance 1/inputs, cut at two standard deviations, biases 0.
    """
    layers = []
    for index, (n, m) in enumerate(shapes):
        match spec.initialization:
            case "orthogonal":
                gain = spec.gain if index == len(shapes) - 1 else math.sqrt(2)
                layers.append(Layer(gain * _orthogonal(rng, n, m), np.zeros(n)))
            case "uniform":
                bound = 1 / math.sqrt(m)
                weight = rng.uniform(-bound, bound, (n, m))
                layers.append(Layer(weight, rng.uniform(-bound, bound, n)))
            case "lecun_normal":
                layers.append(Layer(_truncated_normal(rng, n, m) / math.sqrt(m), np.zeros(n)))
    return layers


def _orthogonal(rng: np.random.Generator, outputs: int, inputs: int) -> np.ndarray:
    tall = rng.standard_normal((max(outputs, inputs), min(outputs, inputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return q if outputs >= inputs else q.T


def _truncated_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw normal numbers cut at +-2 and scaled back to unit variance."""
    drawn = rng.standard_normal(shape)
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = rng.standard_normal(int(outside.sum()))
    density, mass = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(math.sqrt(2))
    return drawn / math.sqrt(1 - 4 * density / mass)  # the variance of the cut distribution


@dataclass(frozen=True)
class FlatNetwork:
    """A network whose parameters are one float32 vector."""

    network: Network
    shapes: tuple[tuple[int, ...], ...]
    structure: Any

    @property
    def num_parameters(self) -> int:
        """The length of the parameter vector."""
        return sum(map(math.prod, self.shapes))

    def init(self, rng: np.random.Generator) -> Float[np.ndarray, " p"]:
        """Draw a parameter vector."""
        leaves = jax.tree.leaves(self.network.init(rng))
        return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float32)

    def unflatten(self, parameters: Float[Array, " p"]) -> Any:
        """Cut a parameter vector into the parameters that `apply` takes."""
        parts = jax.lax.split(parameters, [math.prod(shape) for shape in self.shapes])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.structure, leaves)

    def for_small_batches(self, parameters: Float[Array, " p"]) -> Any:
        """Cut a parameter vector into what `apply` takes, for many calls with small batches."""
        return self.network.for_small_batches(self.unflatten(parameters))

    def __call__(
        self, parameters: Float[Array, " p"], x: Float[Array, "in batch"]
    ) -> Float[Array, "out batch"]:
        """Return the outputs for every column of `x`."""
        return self.network.apply(self.unflatten(parameters), x)


def flatten(network: Network) -> FlatNetwork:
    """Return a network with its parameters as one vector."""
    leaves, structure = jax.tree.flatten(network.init(np.random.default_rng(0)))
    return FlatNetwork(network, tuple(np.shape(leaf) for leaf in leaves), structure)


def auto(spec: NetworkSpec) -> Network:
    """Return `conv` where the observation is an image, and `mlp` elsewhere.

    An image is [rows, columns, channels] with at least 3 rows and columns.
    """
    return conv(spec) if is_image(spec.observation) else mlp(spec)


NETWORKS = {
    "auto": BuiltIn(auto, "mlp, with a convolution in front of it for images"),
    "mlp": BuiltIn(mlp, "hidden layers of the widths of --hidden"),
    "conv": BuiltIn(conv, "a convolution, then mlp"),
}


def make_network(name: str, spec: NetworkSpec) -> FlatNetwork:
    """Return the network that a name stands for."""
    if name in NETWORKS:
        return flatten(NETWORKS[name].make(spec))
    where = f"network: {name!r}"
    try:
        flat = flatten(registry.registered("network", name)(spec))
        vector = jax.ShapeDtypeStruct((flat.num_parameters,), jnp.float32)  # type: ignore[no-untyped-call]
        x = jax.ShapeDtypeStruct((math.prod(spec.observation), 1), jnp.float32)  # type: ignore[no-untyped-call]
        outputs = jax.eval_shape(flat, vector, x)
    except UserError:
        raise
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"{where}: {in_one_line(error)}") from None
    if outputs.shape != (spec.outputs, 1):
        raise UserError(
            f"{where}: apply returns {outputs.shape} for one observation, "
            f"expected ({spec.outputs}, 1)"
        )
    return flat


OPTIMIZERS = {
    "adam": BuiltIn(lambda s: optax.scale_by_adam(eps=s.adam_eps), "Adam, with --adam-eps"),
    "rmsprop": BuiltIn(lambda s: optax.scale_by_rms(eps=s.adam_eps), "RMSProp, with --adam-eps"),
    "sgd": BuiltIn(lambda s: optax.identity(), "plain gradient descent"),
}


def make_optimizer(settings: Settings) -> optax.GradientTransformation:
    """Return the optimiser of the settings: the gradient is clipped, then transformed."""
    name = settings.optimizer
    known = OPTIMIZERS.get(name)
    factory = known.make if known else registry.registered("optimizer", name)
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
