"""The readings side by side: verdicts, fingerprint and agreement, as tables and pictures."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mirrorax.figures.style import save, style
from mirrorax.paper import agreement, fingerprint, matrix
from mirrorax.paper.agreement import Correlation
from mirrorax.paper.claim import Claim
from mirrorax.paper.fingerprint import Fingerprint
from mirrorax.paper.matrix import Matrix
from mirrorax.paper.readings_pictures import draw_agreement, draw_fingerprint, draw_matrix
from mirrorax.paper.runs import Runs

_FORMATS = ("png", "pdf")
#: The level of Table 1, and one that readings reach under which nothing is good.
LEVELS = (0.9, 0.75)


def fingerprints(runs: Mapping[str, Runs], seed: int) -> dict[str, Fingerprint]:
    """Return the likelihood of each reading that has all points of the fingerprint."""
    prints = {
        name: fingerprint.fingerprint(each, np.random.default_rng(seed))
        for name, each in runs.items()
    }
    return {name: each for name, each in prints.items() if each is not None}


def agreements(
    runs: Mapping[str, Runs], seed: int
) -> dict[float, dict[tuple[str, str], Correlation]]:
    """Return the rank correlations of the readings at each level."""
    return {
        level: agreement.agreement(runs, np.random.default_rng(seed), level) for level in LEVELS
    }


def write_readings(runs: Mapping[str, Runs], verdicts: Matrix, home: Path, seed: int) -> str:
    """Write tables and pictures to a folder; return them as part of a page."""
    prints, orders = fingerprints(runs, seed), agreements(runs, seed)
    texts: dict[str, str] = {}
    body = ["<h2>Readings</h2>"]
    with style():
        if verdicts.claims:
            texts["verdicts.md"] = matrix.summary(verdicts) + "\n" + matrix.markdown(verdicts)
            texts["verdicts.csv"] = matrix.comma_separated(verdicts)
            save(draw_matrix(verdicts), home / "verdicts", _FORMATS)
            lines = "".join(f"<li>{html.escape(_line(row))}</li>" for row in verdicts.rows)
            body.append(f"<ul>{lines}</ul>" + _picture("verdicts", "Claims by readings"))
        if prints:
            texts["fingerprint.md"] = fingerprint.table(prints)
            save(draw_fingerprint(prints), home / "fingerprint", _FORMATS)
            title = "What Table 1 implies, by reading, and the likelihood of each"
            body.append(_picture("fingerprint", title))
        for level, correlations in orders.items():
            name = f"agreement_{level:g}"
            if correlations:
                texts[f"{name}.md"] = agreement.table(correlations)
                save(draw_agreement(correlations), home / name, _FORMATS)
                title = f"Rank correlations of the order of the pairs by Rbst_{level:g}"
                body.append(_picture(name, title))
    for file, text in texts.items():
        (home / file).write_text(text, encoding="utf-8")
    return "\n".join(body) + "\n"


def _line(row: Mapping[str, Claim]) -> str:
    claim = next(iter(row.values()))
    return f"({claim.number}) {claim.text}: {matrix.holds(row)}"


def _picture(name: str, title: str) -> str:
    text = html.escape(title)
    return (
        f'<figure><img src="{name}.png" alt="{text}"><figcaption class=note>{text} '
        f'(<a href="{name}.pdf">{name}.pdf</a>)</figcaption></figure>'
    )
