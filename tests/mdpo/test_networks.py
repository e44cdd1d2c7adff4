"""Networks as flat vectors: gradients, initialisation, sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mirrorax.errors import UserError
from mirrorax.mdpo import optimizer
from mirrorax.mdpo.networks import (
    ConvNetwork,
    Network,
    initialize,
    make_network,
    sample_actions,
)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(4, 8, 8, 3), (5, 7, 2), (3, 2), (2, 6, 5, 4, 3)])
def test_the_written_gradient_is_the_automatic_one(activation, sizes):
    network = Network(sizes, activation)
    rng = np.random.default_rng(0)
    p = jnp.asarray(initialize(network, rng, "uniform"))
    x = jnp.asarray(rng.standard_normal((sizes[0], 11)), jnp.float32)
    slope = jnp.asarray(rng.standard_normal((sizes[-1], 11)), jnp.float32)
    layers = network.layers(p)
    y, inputs = network.forward(layers, x)
    found = network.backward(layers, inputs, slope)
    expected = jax.grad(lambda p: jnp.sum(network(p, x) * slope))(p)
    assert found.shape == (network.num_parameters,)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y, network(p, x))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(
    ("image", "hidden"), [((5, 4, 3), (6,)), ((3, 3, 1), ()), ((6, 7, 2), (5, 4))]
)
def test_the_written_gradient_through_a_convolution_is_the_automatic_one(activation, image, hidden):
    network = make_network("auto", image, hidden, 3, activation)
    assert isinstance(network, ConvNetwork)
    rng = np.random.default_rng(0)
    p = jnp.asarray(initialize(network, rng, "uniform"))
    x = jnp.asarray(rng.standard_normal((np.prod(image), 11)), jnp.float32)
    slope = jnp.asarray(rng.standard_normal((3, 11)), jnp.float32)
    layers = network.layers(p)
    y, inputs = network.forward(layers, x)
    found = network.backward(layers, inputs, slope)
    expected = jax.grad(lambda p: jnp.sum(network(p, x) * slope))(p)
    assert found.shape == (network.num_parameters,) == p.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(y, network(p, x))


def test_the_convolution_is_jaxs_own():
    image, rng = (6, 5, 4), np.random.default_rng(0)
    network = make_network("conv", image, (7,), 2, "relu")
    p = jnp.asarray(initialize(network, rng, "uniform"))
    first, *rest = network.layers(p)
    x = jnp.asarray(rng.standard_normal((np.prod(image), 9)), jnp.float32)
    pictures = x.T.reshape(9, *image)
    kernel = first.weight.reshape(16, 3, 3, 4)
    seen = jax.lax.conv_general_dilated(
        pictures, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "OHWI", "NCHW")
    )
    seen = jax.nn.relu(seen + first.bias[None, :, None, None]).reshape(9, -1).T
    expected = network.body.forward(tuple(rest), seen)[0]
    np.testing.assert_allclose(network(p, x), expected, rtol=1e-4, atol=1e-5)


def test_the_network_follows_the_shape_of_the_observation_or_the_users_wish():
    flat = Network((400, 8, 3), "tanh")
    assert make_network("mlp", (10, 10, 4), (8,), 3, "tanh") == flat
    assert make_network("auto", (400,), (8,), 3, "tanh") == flat
    assert make_network("auto", (20, 20), (8,), 3, "tanh") == flat
    conv = make_network("auto", (10, 10, 4), (8,), 3, "tanh")
    assert conv == make_network("conv", (10, 10, 4), (8,), 3, "tanh")
    assert isinstance(conv, ConvNetwork)
    assert conv.shapes == ((16, 36), (8, 16 * 8 * 8), (3, 8))
    with pytest.raises(UserError, match=r"network: 'conv' needs .* here they are 20 x 20"):
        make_network("conv", (20, 20), (8,), 3, "tanh")
    with pytest.raises(UserError, match="here they are 2 x 9 x 4"):
        make_network("conv", (2, 9, 4), (8,), 3, "tanh")


def test_orthogonal_weights_are_orthogonal():
    network = Network((6, 32, 32, 3), "tanh")
    layers = network.layers(initialize(network, np.random.default_rng(0), "orthogonal"))
    for layer, gain in zip(layers, (np.sqrt(2), np.sqrt(2), 0.01), strict=True):
        weight = np.asarray(layer.weight, float)
        small = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(small @ small.T, gain**2 * np.eye(len(small)), atol=1e-5)
        assert not np.asarray(layer.bias).any()


def test_uniform_weights_fill_their_range():
    network = Network((16, 64, 2), "tanh")
    layers = network.layers(initialize(network, np.random.default_rng(0), "uniform"))
    for layer, bound in zip(layers, (1 / 4, 1 / 8), strict=True):
        for part in layer:
            assert np.abs(part).max() <= bound
        assert np.abs(layer.weight).max() > 0.9 * bound
    assert np.asarray(layers[0].bias).std() > 0


def test_sampling_inverts_the_cumulative_distribution():
    logits = jnp.asarray([[0.0, 2.0, -1.0], [200.0, -200.0, 0.0]]).T
    uniform = (np.arange(10_000) + 0.5) / 10_000
    for column in logits.T:
        drawn = sample_actions(
            jnp.tile(column[:, None], (1, 10_000)), jnp.asarray(uniform, jnp.float32)
        )
        share = np.bincount(np.asarray(drawn), minlength=3) / 10_000
        np.testing.assert_allclose(share, jax.nn.softmax(column), atol=2e-4)


@pytest.mark.parametrize("joint", [False, True])
def test_adam_and_clipping_agree_with_optax(joint):
    rng = np.random.default_rng(0)
    p = jnp.asarray(rng.standard_normal((2, 40)), jnp.float32)
    ours, moments = p, optimizer.zeros_like(p)
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.01, eps=1e-5))
    theirs = [p] if joint else list(p)
    states = [chain.init(part) for part in theirs]
    for step in range(1, 6):
        g = jnp.asarray(rng.standard_normal((2, 40)) * (0.01 if step == 3 else 1), jnp.float32)
        norm2 = jnp.sum(g * g) if joint else jnp.sum(g * g, axis=1, keepdims=True)
        clipped = g * optimizer.clip_factor(norm2, 1.0)
        ours, moments = optimizer.adam(
            ours, clipped, moments, jnp.float32(0.01), jnp.float32(step), 1e-5
        )
        for i, part in enumerate([g] if joint else list(g)):
            change, states[i] = chain.update(part, states[i])
            theirs[i] = theirs[i] + change
    np.testing.assert_allclose(
        ours, jnp.concatenate([t.reshape(-1, 40) for t in theirs]), atol=1e-5
    )
