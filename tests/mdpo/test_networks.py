"""Networks: outputs, gradients, initialisation; networks and optimisers of one's own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mirrorax
from mirrorax.errors import UserError
from mirrorax.mdpo.networks import Layer, Network, NetworkSpec, make_network
from mirrorax.mdpo.train import sample_actions


def spec_of(observation, hidden, outputs, **fields):
    return NetworkSpec(observation, outputs, hidden, **{"initialization": "uniform", **fields})


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("sizes", [(4, 8, 8, 3), (5, 7, 2), (3, 2), (2, 6, 5, 4, 3)])
def test_a_perceptron_is_the_one_of_the_textbook(activation, sizes):
    spec = spec_of(sizes[:1], sizes[1:-1], sizes[-1], activation=activation)
    network = make_network("mlp", spec)
    rng = np.random.default_rng(0)
    vector = network.init(rng)
    x = rng.standard_normal((sizes[0], 11))
    y = x
    layers = network.unflatten(jnp.asarray(vector))
    for index, layer in enumerate(layers):
        y = np.asarray(layer.weight, float) @ y + np.asarray(layer.bias, float)[:, None]
        if index < len(layers) - 1:
            y = np.tanh(y) if activation == "tanh" else np.maximum(y, 0)
    assert vector.shape == (network.num_parameters,)
    np.testing.assert_allclose(network(jnp.asarray(vector), jnp.asarray(x, jnp.float32)), y, 2e-5)


def test_the_gradient_of_a_layer_is_the_automatic_one():
    """The bias has a rule of its own, also where layers are batched."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape), jnp.float32)  # noqa: E731
    weight, bias, x, slope = draw(2, 5, 3), draw(2, 5), draw(3, 11), draw(2, 5, 11)

    def plain(weight, bias):
        return jnp.sum((weight @ x + bias[:, :, None]) * slope)

    def layered(weight, bias):
        return jnp.sum(jax.vmap(lambda w, b: Layer(w, b)(x))(weight, bias) * slope)

    expected = jax.grad(plain, argnums=(0, 1))(weight, bias)
    for ours, theirs in zip(jax.grad(layered, argnums=(0, 1))(weight, bias), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_the_convolution_is_jaxs_own():
    image, rng = (6, 5, 4), np.random.default_rng(0)
    spec = spec_of(image, (7,), 2, activation="relu")
    network = make_network("conv", spec)
    vector = jnp.asarray(network.init(rng))
    first, rest = network.unflatten(vector)
    x = jnp.asarray(rng.standard_normal((np.prod(image), 9)), jnp.float32)
    kernel = first.weight.reshape(16, 3, 3, 4)
    seen = jax.lax.conv_general_dilated(
        x.T.reshape(9, *image), kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "OHWI", "NCHW")
    )
    seen = jax.nn.relu(seen + first.bias[None, :, None, None]).reshape(9, -1).T
    body = make_network("mlp", spec._replace(observation=(16, 4, 3)))
    np.testing.assert_allclose(
        network(vector, x), body.network.apply(rest, seen), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", ["mlp", "conv"])
def test_the_form_for_small_batches_is_the_same_network(name):
    spec = spec_of((6, 5, 4), (7, 8), 3, activation="relu")
    network = make_network(name, spec)
    rng = np.random.default_rng(0)
    vector = jnp.asarray(network.init(rng))
    x = jnp.asarray(rng.standard_normal((120, 9)), jnp.float32)
    outputs = network.network.apply(network.for_small_batches(vector), x)
    np.testing.assert_allclose(outputs, network(vector, x), rtol=1e-5, atol=1e-6)


def test_the_network_follows_the_shape_of_the_observation_or_the_users_wish():
    def first(name, observation):
        return make_network(name, spec_of(observation, (8,), 3)).shapes[0]

    assert first("mlp", (10, 10, 4)) == first("auto", (400,)) == first("auto", (20, 20)) == (8, 400)
    assert first("auto", (10, 10, 4)) == first("conv", (10, 10, 4)) == (16, 36)
    with pytest.raises(UserError, match=r"network: 'conv' needs .* here they are 20 x 20"):
        first("conv", (20, 20))
    with pytest.raises(UserError, match="here they are 2 x 9 x 4"):
        first("conv", (2, 9, 4))


def layers_of(**fields):
    network = make_network("mlp", spec_of((16,), (64, 64), 3, **fields))
    return network.unflatten(jnp.asarray(network.init(np.random.default_rng(0))))


@pytest.mark.parametrize("gain", [0.01, 1.0])
def test_orthogonal_weights_are_orthogonal_and_the_output_has_its_gain(gain):
    layers = layers_of(initialization="orthogonal", gain=gain)
    for layer, size in zip(layers, (np.sqrt(2), np.sqrt(2), gain), strict=True):
        weight = np.asarray(layer.weight, float)
        small = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(small @ small.T, size**2 * np.eye(len(small)), atol=1e-5)
        assert not np.asarray(layer.bias).any()


def test_uniform_weights_fill_their_range():
    for layer, inputs in zip(layers_of(initialization="uniform"), (16, 64, 64), strict=True):
        bound = 1 / math.sqrt(inputs)
        for part in layer:
            assert np.abs(part).max() <= bound
        assert np.abs(layer.weight).max() > 0.9 * bound
        assert np.asarray(layer.bias).std() > 0


def test_lecun_normal_weights_have_variance_one_over_inputs_and_no_tails():
    for layer, inputs in zip(layers_of(initialization="lecun_normal")[:2], (16, 64), strict=True):
        weight = np.asarray(layer.weight, float) * math.sqrt(inputs)
        # 1,024 and 4,096 numbers: four standard errors of a variance
        assert abs(weight.var() - 1) < 4 * math.sqrt(2 / weight.size)
        assert np.abs(weight).max() < 2 / 0.879  # the cut, over the cut's standard deviation
        assert not np.asarray(layer.bias).any()


def test_sampling_inverts_the_cumulative_distribution():
    logits = jnp.asarray([[0.0, 2.0, -1.0], [200.0, -200.0, 0.0]]).T
    uniform = (np.arange(10_000) + 0.5) / 10_000
    for column in logits.T:
        drawn = sample_actions(
            jnp.tile(column[:, None], (1, 10_000)), jnp.asarray(uniform, jnp.float32)
        )
        share = np.bincount(np.asarray(drawn), minlength=3) / 10_000
        np.testing.assert_allclose(share, jax.nn.softmax(column), atol=2e-4)


def linear(spec):
    """A network of one's own: parameters are a dictionary."""

    def init(rng):
        return {"weight": 0.01 * rng.standard_normal((spec.outputs, math.prod(spec.observation)))}

    return Network(init, lambda parameters, x: parameters["weight"] @ x)


def test_a_network_and_an_optimiser_of_ones_own_train():
    mirrorax.register_network("test-linear", linear)
    mirrorax.register_optimizer("test-lion", lambda settings: optax.scale_by_lion())
    fields = {"steps": 12_800, "env_steps_per_update": 64, "batch_size": 128, "alpha": 0.05}
    fields |= {"seeds": 2, "lanes": 2, "actor_lr": 0.01, "critic_lr": 0.01}
    result = mirrorax.train("DeepSea(3)", network="test-linear", optimizer="test-lion", **fields)
    assert result.policies.shape == (2, 2 * 9)
    assert result.greedy_returns.mean() > 0.9  # a random policy earns 0.12
    default = mirrorax.train("DeepSea(3)", network="test-linear", **fields)
    assert not np.array_equal(result.policies, default.policies)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda spec: None, "network: 'test-wrong': "),
        (lambda spec: linear(spec._replace(outputs=7)), r"apply returns \(7, 1\) .* expected \(2"),
        (lambda spec: Network(linear(spec).init, lambda p, x: 1 / 0), "ZeroDivisionError"),
    ],
)
def test_a_network_that_does_not_fit_is_one_line(factory, message):
    mirrorax.register_network("test-wrong", factory)
    with pytest.raises(UserError, match=message):
        mirrorax.train("CartPole", network="test-wrong", steps=256, seeds=1)


def test_unknown_networks_and_optimisers_are_refused():
    with pytest.raises(UserError, match=r"network: .*'resnet'"):
        mirrorax.train("CartPole", network="resnet", steps=256)
    with pytest.raises(UserError, match=r"optimizer: .*'adm'.*adam"):
        mirrorax.train("CartPole", optimizer="adm", steps=256)
