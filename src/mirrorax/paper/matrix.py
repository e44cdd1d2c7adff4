"""Claims by readings: the verdict on each claim under each reading, and how many it holds in."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from mirrorax.formatting import counted
from mirrorax.paper.claim import Claim
from mirrorax.paper.runs import Runs
from mirrorax.paper.verdicts import judge


@dataclass(frozen=True)
class Matrix:
    """The claims as judged under each reading, all in the same order."""

    claims: Mapping[str, Sequence[Claim]]

    @property
    def rows(self) -> list[dict[str, Claim]]:
        """For each claim its verdicts, by reading."""
        readings = list(self.claims)
        columns = zip(*self.claims.values(), strict=True)
        return [dict(zip(readings, row, strict=True)) for row in columns]


def judge_all(collection: Mapping[str, Runs], seed: int) -> Matrix:
    """Judge every claim under every reading that has runs of the paper's studies."""
    claims = {name: judge(runs, np.random.default_rng(seed)) for name, runs in collection.items()}
    return Matrix({name: each for name, each in claims.items() if any(c.runs for c in each)})


def holds(row: Mapping[str, Claim]) -> str:
    """Say in how many readings a claim holds, of those that have runs for it."""
    tested = [claim.verdict for claim in row.values() if claim.runs]
    if not tested:
        return "not run under any reading"
    yes, no = tested.count("reproduced"), tested.count("not reproduced")
    counts = {"against": no, "undecided": len(tested) - yes - no}
    rest = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    text = f"holds in {yes} of {counted(len(tested), 'reading')}"
    return f"{text} ({rest})" if rest else text


def summary(matrix: Matrix) -> str:
    """Return one line per claim as a Markdown table."""
    lines = ["| claim | paper | verdict |", "|---|---|---|"]
    for row in matrix.rows:
        claim = next(iter(row.values()))
        lines.append(f"| ({claim.number}) {claim.text} | {claim.paper} | {holds(row)} |")
    return "\n".join(lines) + "\n"


def grouped(matrix: Matrix) -> str:
    """Return the summary in a few lines: claims that hold in as many readings share one."""
    groups: dict[str, list[str]] = {}
    for row in matrix.rows:
        claim = next(iter(row.values()))
        groups.setdefault(holds(row), []).append(f"({claim.number}) {claim.text}")
    return "\n".join(f"- **{text}**: {'; '.join(claims)}." for text, claims in groups.items())


def markdown(matrix: Matrix) -> str:
    """Return the matrix as a Markdown table: the verdict, the number and its interval."""
    lines = ["| claim | " + " | ".join(matrix.claims) + " |", "|---|" + "---|" * len(matrix.claims)]
    for row in matrix.rows:
        claim = next(iter(row.values()))
        cells = [f"**{c.verdict}**: {c.brief}" if c.runs else "no runs" for c in row.values()]
        lines.append(f"| ({claim.number}) | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def comma_separated(matrix: Matrix) -> str:
    """Return the matrix as CSV, one line per reading and claim."""
    text = io.StringIO()
    rows = [{"reading": n, **asdict(c)} for n, claims in matrix.claims.items() for c in claims]
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
