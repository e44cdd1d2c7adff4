"""Names: one spelling in both directions, and errors that help."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import DRIFTS, POTENTIALS

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers import Bregman, LpNorm, NegativeTsallis, names


@pytest.mark.parametrize("name", POTENTIALS)
def test_potentials_round_trip(name):
    assert str(mirrorax.potential(name)) == name
    assert str(names.parse_potential(name)) == name


@pytest.mark.parametrize("name", DRIFTS)
def test_drifts_round_trip(name):
    assert str(mirrorax.drift(name)) == name
    assert str(names.parse_drift(name)) == name


def test_the_tests_of_all_regularisers_have_every_built_in():
    elsewhere = {"to", "ppo_clip", "dpo"}  # test_reference.py, test_functionals.py
    for kind, tried in (("potential", POTENTIALS), ("drift", DRIFTS)):
        built_in = {form.partition("(")[0] for form in names.descriptions(kind)}
        assert built_in - elsewhere == {name.partition("(")[0] for name in tried}


@given(st.floats(min_value=1e-6, max_value=1e6, allow_nan=False))
def test_every_parameter_survives_its_spelling(m):
    assert mirrorax.potential(str(NegativeTsallis(m))) == NegativeTsallis(m)
    assert mirrorax.drift(str(Bregman(LpNorm(1 + m)))) == Bregman(LpNorm(1 + m))


def test_canonical_form():
    assert str(mirrorax.potential(" tsallis( 1.50 ) ")) == "tsallis(1.5)"
    assert str(mirrorax.potential("lp(2.0)")) == "lp(2)"
    assert str(mirrorax.drift("bregman( lp(2e0) )")) == "bregman(lp(2))"
    assert mirrorax.potential("tsallis(0.5)") == NegativeTsallis(0.5)
    assert hash(mirrorax.potential("lp(2)")) == hash(LpNorm(2))


def test_an_object_is_its_own_name():
    h = NegativeTsallis(0.5)
    assert mirrorax.potential(h) is h
    assert mirrorax.drift(Bregman(h)) == Bregman(h)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("entrpy", ["'entrpy'", "did you mean 'entropy'", "tsallis(m) with m > 0"]),
        ("Entropy", ["'Entropy'", "did you mean 'entropy'"]),
        ("tsalis(2)", ["'tsalis(2)'", "did you mean 'tsallis(2)'"]),
        ("tsallis(0)", ["m = 0 is not allowed", "m > 0", "nearest valid: 'tsallis("]),
        ("tsallis(inf)", ["m = inf", "finite"]),
        ("tsallis", ["needs its parameter", "m > 0", "'tsallis(0.5)'"]),
        ("lp(0.5)", ["p = 0.5", "p >= 1", "nearest valid: 'lp(1)'"]),
        ("lp(two)", ["p = two", "p >= 1"]),
        ("shannon", ["did you mean 'entropy'"]),
        ("lp(2))", ["lp(2))"]),
        ("entropy(1)", ["takes no parameter", "write 'entropy'"]),
        ("kl", ["is a drift, not a potential"]),
        ("tsallis(0.5", ["expected a name, or a name and its parameter in brackets"]),
        ("(" * 5000, ["expected a name"]),
        ("", ["unknown potential ''"]),
        ("__import__('os')", ["unknown potential"]),
    ],
)
def test_bad_potentials(text, parts):
    with pytest.raises(UserError) as error:
        mirrorax.potential(text)
    for part in ["potential", *parts]:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("KL", ["did you mean 'kl'"]),
        ("forwardkl", ["did you mean 'forward_kl'"]),
        ("bregman", ["needs its parameter", "'bregman(entropy)'"]),
        ("bregman(lp(0))", ["in 'bregman(lp(0))'", "p = 0", "p >= 1"]),
        ("tsallis(0.5)", ["is a potential, not a drift", "'bregman(tsallis(0.5))'"]),
        ("Tsallis(0.5)", ["did you mean 'bregman(tsallis(0.5))'"]),
        (3, ["3 is not a name"]),
        (len, ["is not a name; give it one with mirrorax.register_drift"]),
        ("bregman(max", ["expected a name, or a name and its parameter in brackets"]),
        ("bregman(" * 300 + "max" + ")" * 300, ["expected a name"]),
    ],
)
def test_bad_drifts(text, parts):
    with pytest.raises(UserError) as error:
        names.parse_drift(text, "study.pairs[0][1]")
    for part in ["study.pairs[0][1]", *parts]:
        assert part in str(error.value)


@pytest.mark.parametrize("make", [lambda: NegativeTsallis(0), lambda: LpNorm(0.9)])
def test_constructors_refuse_what_names_refuse(make):
    with pytest.raises(UserError, match="is not allowed"):
        make()


def test_names_need_no_jax():
    code = (
        "import sys, mirrorax\n"
        "from mirrorax.regularizers import names\n"
        "assert str(names.parse_drift('bregman(tsallis(1.50))')) == 'bregman(tsallis(1.5))'\n"
        "print([m for m in ('jax', 'numpy', 'gymnax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
