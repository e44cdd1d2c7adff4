"""A reference: what is read from its file, and what it is compared with."""

from __future__ import annotations

import pytest
from results import REFERENCE

from mirrorax.analysis.reference import parse_reference, read_reference
from mirrorax.errors import UserError

PLAIN = {"alpha_schedule": "constant", "lam_schedule": "constant", "actor_q": "regularized"}


def test_a_references_value_only_where_it_is_the_same_thing():
    reference = parse_reference(REFERENCE)
    suite = ["Acrobot", "CartPole", "Catch", "DeepSea"]
    pair = {"potential": "entropy", "drift": "kl", **PLAIN}
    values = reference.values(pair, suite)
    assert (values.label, values.rbst) == ("C", {0.9: 0.0747, 0.95: 0.0327})
    assert (values.cells, values.otherwise) == (784, "")
    assert reference.values(pair, suite[:3]) is None
    assert reference.values({**pair, "lam_schedule": "linear"}, suite) is None
    assert reference.values({**pair, "alpha_schedule": "learned"}, suite) is None
    assert reference.values({**pair, "actor_q": "unregularized"}, suite) is None
    assert reference.values({**pair, "drift": "forward_kl"}, suite) is None
    other = reference.values({**pair, "steps": 1000}, suite)
    assert other.otherwise == "steps 1,000, not 16,000,000"


def test_a_small_reference_is_for_any_environments_and_may_name_schedules():
    reference = parse_reference(
        'name = "x"\nthresholds = [0.5]\n[[rows]]\npotential = "tsallis(0.50)"\ndrift = "kl"\n'
        'lam_schedule = "linear"\nrbst = [1]\n'
    )
    pair = {"potential": "tsallis(0.5)", "drift": "kl", **PLAIN}
    assert reference.values(pair, ["Catch"]) is None
    values = reference.values({**pair, "lam_schedule": "linear"}, ["Catch"])
    assert (values.label, values.rbst, values.cells) == ("", {0.5: 1.0}, None)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('name = "before"', "", "name: "),
        ("[0.9, 0.95]", "[0.9, 1.0]", "thresholds[1]: 1.0"),
        ("[0.9, 0.95]", "[0.9]", "rows[0].rbst: [0.14, 0.07] has 2 values; there are 1 thresholds"),
        ("cells = 784", "cell = 784", "cell: 784: no such key"),
        ('"bregman(max)"', '"kl"', "rows[1]: (entropy, kl) is there already"),
        ('"bregman(max)"', '"klm"', "rows[0].drift: "),
        ("steps =", "step =", "settings: unknown value 'step' (did you mean 'steps'?)"),
    ],
)
def test_mistakes_of_a_reference_are_one_line(before, after, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(REFERENCE.replace(before, after, 1))
    with pytest.raises(UserError) as caught:
        read_reference(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)
