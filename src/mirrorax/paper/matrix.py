"""Claims by readings: the verdict on each claim under each reading, and how many it holds in.

The rules stand beside each verdict. A claim whose runs are missing, or have one seed, is not
decided. That something exists (a good cell) can be shown on part of a grid, but only the whole grid
can show that it does not; values on part of a grid are not the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from mirrorax.formatting import comma_separated, counted, markdown_table
from mirrorax.paper import claims_on_pairs, claims_on_region, claims_on_temperatures
from mirrorax.paper.claim import Claim
from mirrorax.paper.runs import ReadingRuns

#: All claims, in the order of their numbers: verdicts, pages and pictures come from this table.
JUDGES = (
    claims_on_pairs.values,
    claims_on_pairs.order,
    claims_on_region.baseline_is_l,
    claims_on_region.necessary,
    claims_on_region.apmd,
    claims_on_pairs.solved,
    claims_on_temperatures.constant_lam,
    claims_on_temperatures.alpha_handling,
    claims_on_temperatures.alpha_growth,
    claims_on_temperatures.lam_growth,
    claims_on_region.boards_are_l,
)


def judge(runs: ReadingRuns, rng: np.random.Generator) -> tuple[Claim, ...]:
    """Judge every claim, each with a stream of random numbers of its own."""
    streams = rng.spawn(len(JUDGES))
    return tuple(judge(runs, each) for judge, each in zip(JUDGES, streams, strict=True))


@dataclass(frozen=True)
class Matrix:
    """The claims as judged under each reading, all in the same order."""

    claims: Mapping[str, Sequence[Claim]]

    @property
    def rows(self) -> list[tuple[Claim, dict[str, Claim]]]:
        """Each claim, and its verdicts by reading."""
        columns = zip(*self.claims.values(), strict=True)
        return [(row[0], dict(zip(self.claims, row, strict=True))) for row in columns]


def judge_all(collection: Mapping[str, ReadingRuns], seed: int) -> Matrix:
    """Judge every claim under every reading that has runs of the paper's studies."""
    claims = {name: judge(runs, np.random.default_rng(seed)) for name, runs in collection.items()}
    return Matrix({name: each for name, each in claims.items() if any(c.runs for c in each)})


def votes(row: Mapping[str, Claim]) -> tuple[int, int, int]:
    """Return in how many readings a claim holds, does not hold, and is not decided."""
    verdicts = [claim.verdict for claim in row.values() if claim.runs]
    yes, no = verdicts.count("reproduced"), verdicts.count("not reproduced")
    return yes, no, len(verdicts) - yes - no


def holds(row: Mapping[str, Claim]) -> str:
    """Say in how many readings a claim holds, of those that have runs for it."""
    counts = votes(row)
    words = zip(("holds in", "does not hold in", "undecided in"), counts, strict=True)
    said = [f"{word} {count}" for word, count in words if count]
    if not said:
        return "not run under any reading"
    said[0] += f" of {counted(sum(counts), 'reading')}"
    return ", ".join(said)


def summary(matrix: Matrix) -> str:
    """Return one line per claim as a Markdown table."""
    rows = [(claim.title, claim.paper, holds(row)) for claim, row in matrix.rows]
    return markdown_table(("claim", "paper", "verdict"), rows)


def grouped(matrix: Matrix) -> str:
    """Return the summary in at most four lines: how the claims fare where they are decided."""
    groups: dict[str, list[str]] = {
        "Hold in every reading that gives a verdict": [],
        "Hold in some readings, not in others": [],
        "Hold in no reading that gives a verdict": [],
        "No reading gives a verdict": [],
    }
    every, some, none, unknown = groups.values()
    for claim, row in matrix.rows:
        yes, no, _ = votes(row)
        group = (some if no else every) if yes else none if no else unknown
        group.append(f"{claim.title} ({holds(row)})")
    lines = (f"- **{head}:** {'; '.join(claims)}." for head, claims in groups.items() if claims)
    return "\n".join(lines)


def markdown(matrix: Matrix) -> str:
    """Return a line per claim and reading that has runs for it, as a Markdown table."""
    rows = [
        (f"({claim.number})", reading, f"**{judged.verdict}**", judged.brief)
        for claim, row in matrix.rows
        for reading, judged in row.items()
        if judged.runs
    ]
    return markdown_table(("claim", "reading", "verdict", "found"), rows)


def as_csv(matrix: Matrix) -> str:
    """Return the matrix as CSV, one line per reading and claim."""
    head = ["reading", *(field.name for field in fields(Claim))]
    rows = [[name, *astuple(c)] for name, claims in matrix.claims.items() for c in claims]
    return comma_separated(head, rows)
