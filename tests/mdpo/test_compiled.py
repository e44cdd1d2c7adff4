"""What is compiled, and how often."""

import contextlib
import re

import jax
import jax.numpy as jnp
import pytest
import tiny

from mirrorax.mdpo import train
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.train import evaluate
from mirrorax.runs.chunk import make_chunk
from mirrorax.training import train as run

TINY = {**tiny.TINY, "steps": 160, "lanes": 4}
COMPILED = "/jax/core/compile/backend_compile_duration"


@contextlib.contextmanager
def compilations():
    """Collect every compilation of anything."""
    seen = []

    def hear(event, seconds, **_):
        if event == COMPILED:
            seen.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)


@pytest.mark.parametrize(
    ("schedule", "first", "others"),
    [
        (
            "constant",
            {"seeds": 2},
            [
                {"alpha": 0.5, "seeds": 2},
                {"alpha": [0.1, 0.2], "seeds": 1},
                {"lam": [0.0, 3.0], "seeds": [9]},
                {"seeds": [7, 2**40]},
                {"actor_lr": 0.1, "critic_lr": [0.2, 0.3], "seeds": 1},
                {"gamma": 0.5, "reward_scale": 30.0, "seeds": 2},
            ],
        ),
        ("learned", {"w": 0.3, "seeds": 2}, [{"w": [0.0, 1.0], "lam": 7.0, "seeds": 1}]),
    ],
)
def test_traced_values_never_compile_anything(schedule, first, others):
    fields = {"env": "Catch(4x3)", "alpha_schedule": schedule, **TINY}
    with compilations() as seen:
        run(**fields, **first)
    assert seen, "compilations are not heard of"
    before = train.segment._cache_size(), evaluate._cache_size()
    for other in others:
        with compilations() as seen:
            run(**fields, **other)
        assert seen == [], other
    # Lengths and numbers of runs are data too, for all but a few small operations on the host.
    run(**{**fields, "steps": 320}, **{**first, "seeds": 3})
    assert (train.segment._cache_size(), evaluate._cache_size()) == before


def custom_calls(lowered):
    """Return the names of the foreign functions of a program, before and after XLA's passes."""
    before = re.findall(r"custom_call\s*@([\w$.]+)", lowered.as_text())
    text = lowered.compile().as_text()
    after = re.findall(r'custom_call_target="([^"]+)"', text)
    assert bool(after) == ("custom-call" in text)
    return {*before, *after}


@pytest.mark.parametrize("layout", ["map", "vmap"])
def test_training_calls_no_lapack(small, some_keys, layout):
    """Batched LAPACK calls can wait for each other for ever; there is no foreign call at all."""
    session = Session(make_chunk(small(), {}, 4, some_keys(2)), layout=layout)
    lowered = train.segment.lower(
        session.program,
        layout,
        session._state,
        session._keys,
        session._values,
        jnp.int32(10),
        jnp.int32(2),
        jnp.int32(1),
    )
    assert custom_calls(lowered) == set()


def test_evaluation_and_the_first_states_call_no_lapack(small, some_keys):
    session = Session(make_chunk(small(), {}, 4, some_keys(2)))
    actors, scale = session._state.learner.actor, session._values.reward_scale
    lowered = evaluate.lower(session.program, 4, actors, session._keys, scale)
    assert custom_calls(lowered) == set()
    words = jnp.zeros((4, 4, session.program.env.reset_words), jnp.uint32)
    assert custom_calls(train._first_states.lower(session.program.env, words)) == set()


def test_a_call_of_lapack_would_be_seen():
    found = custom_calls(jax.jit(jax.vmap(jnp.linalg.qr)).lower(jnp.ones((3, 4, 4))))
    assert any("lapack" in name for name in found)
