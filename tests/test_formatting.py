"""Counts, time spans and rates as they are said."""

import pytest

from mirrorax.formatting import counted, duration, rate


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (504_600, "504,600 runs")]
)
def test_one_is_not_many(count, said):
    assert counted(count, "run") == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3599, "60 min"),
        (12_000, "3 h 20 min"),
        (47.99 * 3600, "47 h 59 min"),
        (124 * 3600, "5 d 4 h"),
    ],
)
def test_a_time_span_has_two_units_at_most(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("each", "said"), [(2.0, "2.0 runs/s"), (0.5, "1,800 runs/h"), (0.0, "0 runs/h")]
)
def test_a_rate_is_said_in_the_unit_that_suits_it(each, said):
    assert rate(each) == said
