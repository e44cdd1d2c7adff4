"""Multilayer perceptrons as flat parameter vectors, with the batch on the last axis.

Why flat: an optimiser step is then three passes over one vector, and a lane's whole network moves
as one slice. Why batch last: the thin products of the first and last layer then run along the
batch, and a softmax over a handful of actions is a few additions of long vectors.

Forward and backward passes are written out: the forward pass of the critics is needed twice (for
the actor's objective and for the critics' own gradient) and is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Activation = Literal["tanh", "relu"]


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
        return jnp.concatenate(parts)

    def __call__(
        self, parameters: Float[Array, " p"], x: Float[Array, "in batch"]
    ) -> Float[Array, "out batch"]:
        """Return the output alone."""
        return self.forward(self.layers(parameters), x)[0]


def _orthogonal(rng: np.random.Generator, outputs: int, inputs: int) -> np.ndarray:
    tall = rng.standard_normal((max(outputs, inputs), min(outputs, inputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
    return q if outputs >= inputs else q.T


def initialize(
    network: Network, rng: np.random.Generator, how: Literal["orthogonal", "uniform"]
) -> np.ndarray:
    """Draw a parameter vector, on the host and for one network at a time.

    `orthogonal`: orthogonal weights of gain sqrt(2), 0.01 in the output layer, biases zero.
    `uniform`: weights and biases uniform in +-1/sqrt(inputs).

    Never inside the compiled program: a batched QR can wait for itself for ever on few cores.
    """
    parts = []
    last = len(network.sizes) - 2
    for index, (m, n) in enumerate(zip(network.sizes, network.sizes[1:], strict=False)):
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
