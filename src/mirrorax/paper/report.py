"""The report on the reproduction: figures, the comparison table, and one page that shows both."""

from __future__ import annotations

import html
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from mirrorax.errors import UserError
from mirrorax.figures.gallery import prepare
from mirrorax.formatting import comma_separated, counted, html_table, markdown_table
from mirrorax.paper import catalogue, readings, table_2
from mirrorax.paper.claim import Claim, Verdict
from mirrorax.paper.collection import Collection
from mirrorax.paper.drawing import Drawn, draw
from mirrorax.paper.matrix import Matrix, judge, judge_all
from mirrorax.paper.panels import FIGURES
from mirrorax.paper.readings import Reading
from mirrorax.paper.runs import ReadingRuns
from mirrorax.paper.side_by_side import write_readings
from mirrorax.runs.results import Results
from mirrorax.spec.study import expand

_HEAD = ("claim", "paper", "ours", "95% interval", "runs", "verdict")


@dataclass(frozen=True)
class Report:
    """What was written: the reading that the figures are of, its claims, and all verdicts."""

    reading: str
    claims: tuple[Claim, ...]
    drawn: tuple[Drawn, ...]
    matrix: Matrix


def write(
    collection: Collection, out: str | os.PathLike[str], seed: int, reading: str | None = None
) -> Report:
    """Write everything to a folder: the readings side by side, and the figures of one of them.

    That one is the reading with runs for the most claims, unless it is named.
    """
    known = collection.runs
    if reading is not None:
        readings.reading(reading)
        known = {reading: known[reading]} if reading in known else {}
    if not known:
        there = ", ".join(collection.runs) or "; ".join(
            f"{count:,} with {why}" for why, count in collection.foreign.items()
        )
        raise UserError(f"store: no runs of {reading or 'any reading'}; it holds: {there}")
    home = prepare(out)
    matrix = judge_all(known, seed)
    covered = {name: sum(c.runs > 0 for c in claims) for name, claims in matrix.claims.items()}
    name = max(known, key=lambda each: (covered.get(each, 0), known[each].count))
    runs = known[name]
    try:
        claims = tuple(matrix.claims.get(name) or judge(runs, np.random.default_rng(seed)))
        drawn = tuple(draw(figure, runs, home) for figure in FIGURES)
        hyperparameters = table_2.rows(runs.expected)
        listed = [asdict(claim) for claim in claims]
        texts = {
            "table_2.md": markdown_table(table_2.HEAD, hyperparameters),
            "table_2.csv": comma_separated(table_2.HEAD, hyperparameters),
            "comparison.md": f"{table(claims)}\nThe rules:\n\n{rules(claims)}",
            "comparison.csv": comma_separated(list(listed[0]), [list(c.values()) for c in listed]),
            "comparison.json": json.dumps(listed, indent=1),
        }
        readings_part = write_readings(known, matrix, home, seed) + _foreign(collection.foreign)
        texts["index.html"] = _page(name, runs, claims, drawn, readings_part)
        for file, text in texts.items():
            (home / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"out: cannot write to {home}: {error.strerror or error}") from error
    return Report(name, claims, drawn, matrix)


def progress(runs: ReadingRuns, reading: Reading) -> list[tuple[str, int, int]]:
    """Count the runs of each study that are done in a reading, of those of the paper."""
    columns = (runs.table[name].to_pylist() for name in ("run_id", "status"))
    done = {name for name, status in zip(*columns, strict=True) if status == "done"}
    version = runs.expected["algorithm_version"]
    out = []
    for entry in catalogue.ENTRIES:
        study = entry.study()
        blocks = tuple(map(reading.apply, study.blocks))
        ids = expand(replace(study, blocks=blocks), version).ids.astype(str).tolist()
        out.append((entry.name, len(done.intersection(ids)), entry.runs))
    return out


def _rows(claims: Sequence[Claim]) -> list[tuple[str, ...]]:
    return [(c.title, c.paper, c.ours, c.interval, f"{c.runs:,}", c.verdict) for c in claims]


def table(claims: Sequence[Claim]) -> str:
    """Return the comparison as a table, with the notes of each claim below it."""
    rows = [(*row[:-1], f"**{row[-1]}**") for row in _rows(claims)]
    notes = [f"- ({claim.number}) {claim.note}.\n" for claim in claims if claim.note]
    return markdown_table(_HEAD, rows, "llllrl") + "\n" + "".join(notes)


def rules(claims: Sequence[Claim]) -> str:
    """Return the rule that each claim is judged by, as a list."""
    return "".join(f"- ({claim.number}) {claim.rule}.\n" for claim in claims)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
h1, h2 { line-height: 1.2; }
table { border-collapse: collapse; font-size: 0.85rem; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: 0.35rem 0.5rem; text-align: left;
  vertical-align: top; }
.number { text-align: right; white-space: nowrap; }
td.verdict { white-space: nowrap; }
.verdict b { border-radius: 3px; padding: 0.1rem 0.35rem; }
.reproduced b { background: #cfe8d5; } .not-reproduced b { background: #f6cfc4; }
.not-decided b { background: #e6e6e6; }
figure { margin: 1.5rem 0 2.5rem; } figure img { width: 100%; height: auto; }
.note { color: #555; font-size: 0.85rem; }
pre { overflow-x: auto; background: #f5f5f5; padding: 0.75rem; font-size: 0.75rem; }
@media (max-width: 45rem) { table { display: block; overflow-x: auto; } }
@media (prefers-color-scheme: dark) {
  a { color: #7ab8ff; } a:visited { color: #c9a6ff; }
  body { background: #16181b; color: #e6e6e6; } th, td { border-color: #444; }
  .reproduced b { background: #23492f; } .not-reproduced b { background: #6b2c1c; }
  .not-decided b { background: #3a3d41; } pre { background: #222529; } .note { color: #aaa; }
  figure img { background: #fff; }
}
"""


def _page(
    reading: str,
    runs: ReadingRuns,
    claims: Sequence[Claim],
    drawn: Sequence[Drawn],
    readings_part: str,
) -> str:
    text = html.escape
    studies = progress(runs, readings.reading(reading))
    done, total = sum(d for _, d, _ in studies), sum(t for _, _, t in studies)
    compared = html_table(_HEAD, _rows(claims), "llllrl")
    for verdict in get_args(Verdict):
        place = f'<td class="verdict {verdict.replace(" ", "-")}"><b>{verdict}</b></td>'
        compared = compared.replace(f"<td>{verdict}</td>", place)
    notes = "".join(
        f"<li>({text(c.number)}) {text(c.rule)}."
        + (f" <i>Here:</i> {text(c.note)}." if c.note else "")
        + "</li>"
        for c in claims
    )
    counts = [(name, f"{here:,}", f"{of:,}") for name, here, of in studies]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>The paper, reproduced</title><style>{_STYLE}</style></head><body>
<h1>The paper, reproduced as far as it was run</h1>
{readings_part}
<h2>Claims under the reading {text(reading)}</h2>
<p>{done:,} of the paper's {total:,} runs. {text(_where(runs.table))}</p>
{compared}
<p>Verdicts follow these rules:</p>
<ul class=note>{notes}</ul>
<h2>What was run</h2>
{html_table(("study", "runs here", "runs in the paper"), counts, "lrr")}
<h2>Figures and tables</h2>
{"".join(_figure(each) for each in drawn)}
<h3>Table 2: Fixed hyperparameters</h3>
{html_table(table_2.HEAD, table_2.rows(runs.expected))}
</body></html>
"""


def _foreign(foreign: Mapping[str, int]) -> str:
    """Say which runs are not the paper's, and why."""
    if not foreign:
        return ""
    reasons = "; ".join(f"{count:,} with {why}" for why, count in foreign.items())
    return (
        "<p class=note>Runs that are of no reading of the paper are in no figure and no verdict: "
        f"{html.escape(reasons)}.</p>\n"
    )


def _where(table: Results | pa.Table) -> str:
    """Say on what and at which version the runs were made."""
    parts = []
    for name, word in (
        ("mirrorax_version", "mirrorax"),
        ("commit", "commit"),
        ("jax_version", "jax"),
        ("device", "on"),
    ):
        counts = Counter(value for value in table[name].to_pylist() if value is not None)
        if counts:
            values = [
                (str(value)[:12] if name == "commit" else str(value))
                + (f" ({counted(count, 'run')})" if len(counts) > 1 else "")
                for value, count in counts.most_common()
            ]
            parts.append(f"{word} {', '.join(values)}")
    changed = sum(value is True for value in table["dirty"].to_pylist())
    if changed:
        parts.append(f"{changed:,} runs from files that differed from their commit")
    return f"Made with {'; '.join(parts)}." if parts else "Provenance was not recorded."


def _figure(each: Drawn) -> str:
    text = html.escape
    title = f"<h3>{text(each.figure.name)}: {text(each.figure.title)}</h3>"
    if not each.files:
        lacking = "; ".join(each.missing) or "cells with both temperatures positive"
        return f"{title}<p class=note>Not drawn. Missing or incomplete: {text(lacking)}.</p>"
    body = ""
    for path in each.files:
        if path.suffix == ".png":
            other = path.with_suffix(".pdf").name
            body += (
                f'<img src="{quote(path.name)}" alt="{text(each.figure.title)}">'
                f'<figcaption class=note><a href="{quote(other)}">{text(other)}</a></figcaption>'
            )
        elif path.suffix == ".txt":
            body += f"<pre>{text(path.read_text(encoding='utf-8'))}</pre>"
    note = f"{each.runs:,} runs, {each.size}; the paper has {each.figure.runs:,}."
    if each.missing:
        note += f" Missing: {'; '.join(each.missing)}."
    return f"{title}<figure>{body}</figure><p class=note>{text(note)}</p>"
