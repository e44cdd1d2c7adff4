"""Names with several arguments: drift functionals and reference policies."""

from __future__ import annotations

import pytest

from mirrorax.errors import UserError
from mirrorax.regularizers import any_drift, drift, potential, register_functional
from mirrorax.regularizers.functionals import DPO, PPOClip
from mirrorax.regularizers.names import parse_drift, parse_potential, sees_advantages
from mirrorax.regularizers.reference import UNIFORM, To


@pytest.mark.parametrize(
    ("text", "canonical", "built"),
    [
        ("ppo_clip( 0.20 )", "ppo_clip(0.2)", PPOClip(0.2)),
        ("dpo", "dpo", DPO()),
        ("dpo(2,0.6)", "dpo", DPO()),
        ("dpo(1, 3.0)", "dpo(1, 3)", DPO(1.0, 3.0)),
        ("kl", "kl", drift("kl")),
    ],
)
def test_a_name_is_read_and_built(text, canonical, built):
    name = parse_drift(text)
    assert (str(name), any_drift(text)) == (canonical, built)
    assert str(built) == canonical
    assert sees_advantages(name) == (canonical != "kl")


def test_a_reference_nests_a_drift():
    text = "to( uniform,bregman(tsallis(0.5)) )"
    assert str(parse_potential(text)) == "to(uniform, bregman(tsallis(0.5)))"
    assert potential(text) == To(UNIFORM, drift("bregman(tsallis(0.5))"))
    assert str(potential(text)) == "to(uniform, bregman(tsallis(0.5)))"


def test_a_registered_functional_is_known_by_its_name():
    mine = register_functional("gentle", lambda r, a: (r - 1) ** 2)
    assert any_drift("gentle") == mine
    assert sees_advantages(parse_drift("gentle"))


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_drift, "ppo_clip", "ppo_clip needs its parameter"),
        (parse_drift, "ppo_clip(0)", "eps = 0 is not allowed: eps > 0"),
        (parse_drift, "dpo(1)", "dpo takes a, b; for example 'dpo(2, 0.6)'"),
        (parse_drift, "ppo", "did you mean 'ppo_clip(0.2)'?"),
        (parse_potential, "to(kl)", "to takes mu, drift; for example 'to(uniform, kl)'"),
        (parse_potential, "to(nobody, kl)", "unknown reference 'nobody'"),
        (parse_potential, "to(uniform, dpo)", "'dpo' sees advantages"),
        (parse_potential, "to(uniform, lk)", "unknown drift"),
        (drift, "ppo_clip(0.2)", "is for training with algorithm = 'on_policy'"),
        (potential, "to(policy, kl)", "give its folder as `reference`"),
    ],
)
def test_mistakes_are_one_line(parse, text, message):
    with pytest.raises(UserError) as error:
        parse(text)
    assert message in str(error.value)
