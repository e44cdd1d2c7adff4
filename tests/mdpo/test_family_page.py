"""docs/family.md says what the published runs say, and these are the runs of the declared study."""

from pathlib import Path

import pytest
import scripts

from mirrorax.spec.study import expand, read
from mirrorax.store import read_results

RESULTS = Path(__file__).parent.parent.parent / "results" / "on_policy"


def test_the_page_says_what_the_results_say():
    for path, text in scripts.load("docs/family_tables.py").pages().items():
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["study", "minatar"])
def test_the_published_runs_are_those_of_the_declared_study(name):
    """None is left out, none failed, and the files were those of their commit."""
    table = read_results(RESULTS / f"{name}.parquet").table("all")
    (version,) = set(table["algorithm_version"].to_pylist())
    planned = expand(read(RESULTS / f"{name}.toml"), version)
    assert set(table["run_id"].to_pylist()) == {each.decode() for each in planned.ids}
    assert set(table["status"].to_pylist()) == {"done"}
    assert set(table["dirty"].to_pylist()) == {False}
