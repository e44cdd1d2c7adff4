"""Identity is content: pinned hashes, and the vectorised form against the plain one."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specification import canonical, run_id, run_key, specification, specification_of

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.runs.chunk import run_ids, run_keys
from mirrorax.runs.presets import LATER, LATER_VALUES
from mirrorax.runs.settings import (
    LOWEST,
    TRACED,
    RunValues,
    Settings,
    as_float32,
    make_settings,
)
from mirrorax.spec.study import expand, parse


def keys_of(runs):
    """Return the random keys of all runs, each computed by itself."""
    rows = (
        run_keys(runs.configurations[c], {n: v[i : i + 1] for n, v in runs.values.items()})
        for i, c in enumerate(runs.configuration)
    )
    return np.concatenate(list(rows))


# A specification written out, so that the pinned hash depends on the canonical form alone.
WRITTEN = {
    "environment": "CartPole",
    "potential": "tsallis(0.5)",
    "drift": "bregman(max)",
    "steps": 1_000_000,
    "hidden": (64, 64),
    "adam_eps": 1e-05,
    "twin_critics": True,
    "alpha": None,
    "lam": 0.1,
    "seed": 3,
    "algorithm_version": 1,
}
TEXT = (
    '{"adam_eps":1e-05,"algorithm_version":1,"alpha":null,"drift":"bregman(max)",'
    '"environment":"CartPole","hidden":[64,64],"lam":0.1,"potential":"tsallis(0.5)",'
    '"seed":3,"steps":1000000,"twin_critics":true}'
)


def test_canonical_text_is_what_the_docstring_says():
    assert canonical(WRITTEN) == TEXT
    assert canonical(dict(reversed(WRITTEN.items()))) == TEXT


def test_golden_hashes():
    # Computed with sha256sum from TEXT (and from TEXT without its algorithm_version).
    assert run_id(WRITTEN) == "4d4d6a584ed5013aa9f7a9e0b614d699"
    assert run_key(WRITTEN) == (2831031501, 1806711589)


def test_golden_hash_of_the_default_run():
    """Fails when a default or the set of fields changes, which renames every run of every store."""
    spec = specification(Settings(environment="CartPole"), RunValues())
    assert spec["algorithm_version"] == ALGORITHM_VERSION
    first = {**spec, "algorithm_version": 1}  # of the first published results
    assert run_id(first) == "8185195ce9710191e27b68f022ce9cd0"


def test_key_ignores_the_algorithm_version_and_id_does_not():
    newer = {**WRITTEN, "algorithm_version": 2}
    assert run_key(newer) == run_key(WRITTEN)
    assert run_id(newer) != run_id(WRITTEN)


def test_recording_curves_changes_the_id_and_not_the_random_numbers():
    text = 'environments = ["Catch"]\npairs = [["max", "zero"]]\nalpha = 1\nlam = 2\nseeds = 2\n'
    plain, recorded = expand(parse(text)), expand(parse(text + "eval_every = 5\n"))
    np.testing.assert_array_equal(keys_of(plain), keys_of(recorded))
    assert set(plain.ids).isdisjoint(recorded.ids)
    assert run_key(specification_of(recorded, 1)) == tuple(keys_of(plain)[1].tolist())


def test_a_field_added_later_leaves_earlier_identities_as_they_are(monkeypatch):
    """At the value that means what was done before it is not written; at another it is."""
    runs = expand(
        parse(
            'environments = ["Catch"]\npairs = [["max", "zero"]]\nalpha = 1\nlam = 2\nseeds = 1\n'
        )
    )
    spec = specification_of(runs, 0)
    before = {name: value for name, value in spec.items() if name != "clipping"}
    monkeypatch.setitem(LATER, "clipping", "per_network")
    assert run_id(spec) == run_id(before)
    assert run_id({**spec, "clipping": "joint"}) != run_id(before)
    again = run_ids(runs.configurations[0], runs.values)
    assert again[0].decode() == run_id(before)


def test_negative_zero_is_zero_and_not_a_number_is_refused():
    text = 'environments = ["Catch"]\npairs = [["max", "zero"]]\nalpha = 0\nlam = 2\nseeds = 1\n'
    runs = expand(parse(text))

    def ids(alpha):
        values = {**runs.values, "alpha": np.array([alpha])}
        return run_ids(runs.configurations[0], values)

    assert ids(-0.0) == ids(0.0) == runs.ids
    with pytest.raises(ValueError, match="finite"):
        ids(float("inf"))


def temperatures(most):
    """Any number that is not lost in float32."""
    return st.just(0.0) | st.floats(LOWEST, most)


@settings(max_examples=30, deadline=None)
@given(
    alphas=st.lists(temperatures(1e6), min_size=1, max_size=4, unique_by=as_float32),
    lams=st.lists(temperatures(1e30), min_size=1, max_size=3, unique_by=as_float32),
    seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3, unique=True),
    gamma=temperatures(0.999),
)
def test_columns_and_single_runs_have_one_identity(alphas, lams, seeds, gamma):
    study = parse(
        f"""
        environments = ["CartPole", {{ name = "DeepSea(16)", reward_scale = [0.5, 2] }}]
        pairs = [["entropy", "kl"], ["lp(1.5)", "squared_tv"]]
        schedules = [["constant", "linear"], ["learned", "constant"]]
        alpha = {[abs(a) for a in alphas]}
        w = [0.25]
        lam = {[abs(value) for value in lams]}
        seeds = {seeds}
        gamma = {gamma!r}
        """
    )
    runs = expand(study)
    keys = keys_of(runs)
    assert keys.dtype == np.uint32
    assert keys.shape == (len(runs), 2)
    for index in range(len(runs)):
        spec = specification_of(runs, index)
        assert run_id(spec).encode() == runs.ids[index]
        assert run_key(spec) == tuple(keys[index].tolist())


def test_an_independent_reading_of_the_definition_agrees():
    runs = expand(
        parse(
            'environments = ["Catch"]\npairs = [["max", "zero"]]\n'
            "alpha = [0, 0.3]\nlam = 2\nseeds = 2\n"
        )
    )
    for index in range(len(runs)):
        spec = specification_of(runs, index)
        # all at the value that is not written
        for name, before in {**LATER, **LATER_VALUES}.items():
            assert spec.pop(name) == before
        text = json.dumps(spec, sort_keys=True).replace(", ", ",")
        text = text.replace(": ", ":")
        expected = hashlib.sha256(text.encode("ascii")).hexdigest()[:32]
        assert runs.ids[index].decode() == expected


def test_a_weight_of_the_drift_counts_only_where_there_is_one():
    """`v` is younger than the first results: without it identities are what they were."""
    learned = make_settings(environment="Catch", lam_schedule="learned")
    plain = make_settings(environment="Catch")
    texts = [
        canonical(specification(plain, RunValues())),
        canonical(specification(learned, RunValues(lam=None, v=0.25))),
    ]
    assert '"v"' not in texts[0]
    assert '"v":0.25,"w":null' in texts[1]
    columns = {name: np.array([getattr(RunValues(), name)] * 2, dtype=object) for name in TRACED}
    columns["seed"] = np.array([0, 1])
    columns = {n: c if n == "seed" else np.array(c, dtype=np.float64) for n, c in columns.items()}
    columns["lam"], columns["v"] = np.array([0.1, np.nan]), np.array([np.nan, 0.25])
    ids = [
        run_ids(each, {name: column[k : k + 1] for name, column in columns.items()})[0]
        for k, each in enumerate((plain, learned))
    ]
    specs = [
        specification(plain, RunValues()),
        specification(learned, RunValues(lam=None, v=0.25, seed=1)),
    ]
    assert [each.decode() for each in ids] == [run_id(spec) for spec in specs]
