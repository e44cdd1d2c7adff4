"""Networks as flat parameter vectors, with the batch on the last axis: perceptrons, and one
convolution in front of them for observations that are images.

Why flat: an optimiser step is then three passes over one vector, and a lane's whole network moves
as one slice. Why batch last: the thin products of the first and last layer then run along the
batch, and a softmax over a handful of actions is a few additions of long vectors.

Forward and backward passes are written out: the forward pass of the critics is needed twice (for
the actor's objective and for the critics' own gradient) and is computed once.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mirrorax.errors import UserError

Activation = Literal["tanh", "relu"]

#: side of the convolution's windows, and how many filters look through each
WINDOW, FILTERS = 3, 16


class Layer(NamedTuple):
    """The parameters of one layer: y = weight @ x + bias."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]


@dataclass(frozen=True)
class Network:
    """The shape of a perceptron: sizes from input to output, and its activation."""

    sizes: tuple[int, ...]
    activation: Activation

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of every layer."""
        return tuple((n, m) for m, n in itertools.pairwise(self.sizes))

    @property
    def num_parameters(self) -> int:
        """The length of the parameter vector."""
        return sum(n * (m + 1) for m, n in zip(self.sizes, self.sizes[1:], strict=False))

    def layers(self, parameters: Float[Array, " p"]) -> tuple[Layer, ...]:
        """Cut a parameter vector into layers."""
        found, start = [], 0
        for inputs, outputs in zip(self.sizes, self.sizes[1:], strict=False):
            middle = start + inputs * outputs
            weight = parameters[start:middle].reshape(outputs, inputs)
            found.append(Layer(weight, parameters[middle : middle + outputs]))
            start = middle + outputs
        return tuple(found)

    def forward(
        self, layers: tuple[Layer, ...], x: Float[Array, "in batch"]
    ) -> tuple[Float[Array, "out batch"], tuple[Float[Array, "_ batch"], ...]]:
        """Return the output and the input of every layer, which `backward` wants."""
        inputs = []
        for index, layer in enumerate(layers):
            inputs.append(x)
            x = layer.weight @ x + layer.bias[:, None]
            if index < len(layers) - 1:
                x = jnp.tanh(x) if self.activation == "tanh" else jnp.maximum(x, 0)
        return x, tuple(inputs)

    def backward(
        self,
        layers: tuple[Layer, ...],
        inputs: tuple[Float[Array, "_ batch"], ...],
        slope: Float[Array, "out batch"],
    ) -> Float[Array, " p"]:
        """Return the gradient of a loss with derivative `slope` at the output, as a vector."""
        return self._backward(layers, inputs, slope)[0]

    def backward_to_input(
        self,
        layers: tuple[Layer, ...],
        inputs: tuple[Float[Array, "_ batch"], ...],
        slope: Float[Array, "out batch"],
    ) -> tuple[Float[Array, " p"], Float[Array, "in batch"]]:
        """Return the gradient in the parameters, and the derivative at the input."""
        gradient, slope = self._backward(layers, inputs, slope)
        return gradient, layers[0].weight.T @ slope

    def _backward(
        self,
        layers: tuple[Layer, ...],
        inputs: tuple[Float[Array, "_ batch"], ...],
        slope: Float[Array, "out batch"],
    ) -> tuple[Float[Array, " p"], Float[Array, "_ batch"]]:
        """Return the gradient and the derivative at the first layer's output, unactivated."""
        ones = jnp.ones(slope.shape[-1])
        parts: list[Float[Array, " _"]] = []
        for index in reversed(range(len(layers))):
            x = inputs[index]
            # A sum over the batch as a product with ones: vectorised, where a reduction is not.
            parts[:0] = [(slope @ x.T).ravel(), slope @ ones]
            if index > 0:
                slope = layers[index].weight.T @ slope
                # x is the activation's output here: tanh' = 1 - tanh^2, relu' = [relu > 0].
                slope = slope * (1 - x * x) if self.activation == "tanh" else slope * (x > 0)
        return jnp.concatenate(parts), slope

    def __call__(
        self, parameters: Float[Array, " p"], x: Float[Array, "in batch"]
    ) -> Float[Array, "out batch"]:
        """Return the output alone."""
        return self.forward(self.layers(parameters), x)[0]


@dataclass(frozen=True)
class ConvNetwork:
    """A convolution of 3 x 3 windows, without padding, in front of a perceptron.

    The small network of the MinAtar paper (Young and Tian, 2019): 16 filters, then dense layers.
    Observations are flat images of shape [rows, columns, channels]. A window is a column of a
    matrix, so that the convolution is a product like any other layer's, with the same weights at
    every place.
    """

    image: tuple[int, int, int]
    filters: int
    body: Network

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """(outputs, inputs) of every layer; a filter's inputs are one window."""
        return (self.filters, WINDOW * WINDOW * self.image[2]), *self.body.shapes

    @property
    def num_parameters(self) -> int:
        """The length of the parameter vector."""
        outputs, inputs = self.shapes[0]
        return outputs * (inputs + 1) + self.body.num_parameters

    def layers(self, parameters: Float[Array, " p"]) -> tuple[Layer, ...]:
        """Cut a parameter vector into layers: the convolution, then those of the perceptron."""
        outputs, inputs = self.shapes[0]
        middle, end = outputs * inputs, outputs * (inputs + 1)
        weight = parameters[:middle].reshape(outputs, inputs)
        first = Layer(weight, parameters[middle:end])
        return first, *self.body.layers(parameters[end:])

    def windows(self, x: Float[Array, "in batch"]) -> Float[Array, "window places_batch"]:
        """Return every 3 x 3 window of every image, as columns; places before the batch."""
        rows, columns, channels = self.image
        grid = x.reshape(rows, columns, channels, -1)
        height, width = rows - WINDOW + 1, columns - WINDOW + 1
        shifted = [
            grid[i : i + height, j : j + width] for i in range(WINDOW) for j in range(WINDOW)
        ]
        # [windows, rows, columns, channels, batch] -> [windows, channels, rows, columns, batch]
        stacked = jnp.moveaxis(jnp.stack(shifted), 3, 1)
        return stacked.reshape(WINDOW * WINDOW * channels, -1)

    def forward(
        self, layers: tuple[Layer, ...], x: Float[Array, "in batch"]
    ) -> tuple[Float[Array, "out batch"], tuple[Float[Array, "_ batch"], ...]]:
        """Return the output and the input of every layer, which `backward` wants."""
        y = layers[0].weight @ self.windows(x) + layers[0].bias[:, None]
        y = jnp.tanh(y) if self.body.activation == "tanh" else jnp.maximum(y, 0)
        out, inputs = self.body.forward(layers[1:], y.reshape(-1, x.shape[-1]))
        return out, (x, *inputs)

    def backward(
        self,
        layers: tuple[Layer, ...],
        inputs: tuple[Float[Array, "_ batch"], ...],
        slope: Float[Array, "out batch"],
    ) -> Float[Array, " p"]:
        """Return the gradient of a loss with derivative `slope` at the output, as a vector."""
        rest, slope = self.body.backward_to_input(layers[1:], inputs[1:], slope)
        seen = inputs[1]  # the output of the convolution's activation
        slope = slope * (1 - seen * seen) if self.body.activation == "tanh" else slope * (seen > 0)
        slope = slope.reshape(self.filters, -1)
        windows = self.windows(inputs[0])
        ones = jnp.ones(slope.shape[-1])
        return jnp.concatenate([(slope @ windows.T).ravel(), slope @ ones, rest])

    def __call__(
        self, parameters: Float[Array, " p"], x: Float[Array, "in batch"]
    ) -> Float[Array, "out batch"]:
        """Return the output alone."""
        return self.forward(self.layers(parameters), x)[0]


#: any network: the trainer asks no more than what both have
AnyNetwork = Network | ConvNetwork


def make_network(
    kind: Literal["auto", "mlp", "conv"],
    observation: tuple[int, ...],
    hidden: tuple[int, ...],
    outputs: int,
    activation: Activation,
) -> AnyNetwork:
    """Return the network for observations of this shape.

    `auto` puts a convolution in front where the observation is an image, [rows, columns, channels]
    with at least 3 rows and columns; `mlp` flattens any observation; `conv` insists on an image.
    """
    image = len(observation) == 3 and min(observation[:2]) >= WINDOW
    if kind == "conv" and not image:
        shape = " x ".join(map(str, observation))
        raise UserError(
            f"network: 'conv' needs observations of rows x columns x channels, at least "
            f"{WINDOW} x {WINDOW}; here they are {shape}; use 'mlp' or 'auto'"
        )
    if kind == "mlp" or not image:
        return Network((math.prod(observation), *hidden, outputs), activation)
    rows, columns, channels = observation
    places = (rows - WINDOW + 1) * (columns - WINDOW + 1)
    body = Network((FILTERS * places, *hidden, outputs), activation)
    return ConvNetwork((rows, columns, channels), FILTERS, body)


def _orthogonal(rng: np.random.Generator, outputs: int, inputs: int) -> np.ndarray:
    tall = rng.standard_normal((max(outputs, inputs), min(outputs, inputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return q if outputs >= inputs else q.T


def initialize(
    network: AnyNetwork, rng: np.random.Generator, how: Literal["orthogonal", "uniform"]
) -> np.ndarray:
    """Draw a parameter vector, on the host and for one network at a time.

    `orthogonal`: orthogonal weights of gain sqrt(2), 0.01 in the output layer, biases zero.
    `uniform`: weights and biases uniform in +-1/sqrt(inputs).

    Never inside the compiled program: a batched QR can wait for itself for ever on few cores.
    """
    parts = []
    last = len(network.shapes) - 1
    for index, (n, m) in enumerate(network.shapes):
        if how == "orthogonal":
            gain = 0.01 if index == last else math.sqrt(2)
            parts += [gain * _orthogonal(rng, n, m).ravel(), np.zeros(n)]
        else:
            bound = 1 / math.sqrt(m)
            parts += [rng.uniform(-bound, bound, n * m), rng.uniform(-bound, bound, n)]
    return np.concatenate(parts).astype(np.float32)


def sample_actions(
    logits: Float[Array, "actions batch"], uniform: Float[Array, " batch"]
) -> Int[Array, " batch"]:
    """Draw actions from softmax(logits) by inverting the cumulative distribution.

    One uniform number in [0, 1) per action: the action is the number of partial sums of the
    unnormalised probabilities that `uniform` times their total reaches.
    """
    weights = jnp.exp(logits - jnp.max(logits, axis=0, keepdims=True))
    sums = [weights[0]]
    for weight in weights[1:]:
        sums.append(sums[-1] + weight)
    point = uniform * sums[-1]
    action = jnp.zeros(point.shape, jnp.int32)
    for partial in sums[:-1]:
        action = action + (point >= partial)
    return action
