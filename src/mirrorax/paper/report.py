"""The report on the reproduction: figures, the comparison table, and one page that shows both."""

from __future__ import annotations

import csv
import html
import io
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from mirrorax import formatting
from mirrorax.errors import UserError
from mirrorax.figures.gallery import prepare
from mirrorax.paper import catalogue, readings, table_2
from mirrorax.paper.claim import Claim
from mirrorax.paper.collection import Collection
from mirrorax.paper.drawing import Drawn, draw
from mirrorax.paper.matrix import Matrix, judge_all
from mirrorax.paper.panels import FIGURES
from mirrorax.paper.readings import Reading
from mirrorax.paper.readings_report import write_readings
from mirrorax.paper.runs import Runs
from mirrorax.paper.verdicts import judge
from mirrorax.runs.results import Results
from mirrorax.spec.expand import expand

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
        counted = progress(runs.table, readings.reading(name))
        texts = {
            "table_2.md": table_2.markdown(runs.expected),
            "table_2.csv": table_2.comma_separated(runs.expected),
            "comparison.md": markdown(claims),
            "comparison.csv": _csv(claims),
            "comparison.json": json.dumps([asdict(claim) for claim in claims], indent=1),
        }
        side_by_side = write_readings(known, matrix, home, seed)
        head = _Head(name, counted, side_by_side, collection.foreign)
        texts["index.html"] = _page(claims, drawn, head, runs)
        for file, text in texts.items():
            (home / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"out: cannot write to {home}: {error.strerror or error}") from error
    return Report(name, claims, drawn, matrix)


@dataclass(frozen=True)
class _Head:
    """What the page says before the claims."""

    reading: str
    progress: Sequence[tuple[str, int, int]]
    side_by_side: str
    foreign: Mapping[str, int]


def progress(table: Results | pa.Table, reading: Reading) -> list[tuple[str, int, int]]:
    """Count the runs of each study that are done in a reading, of those of the paper."""
    done = {
        name
        for name, status in zip(
            table["run_id"].to_pylist(), table["status"].to_pylist(), strict=True
        )
        if status == "done"
    }
    versions = table["algorithm_version"].unique().to_pylist()
    out = []
    for entry in catalogue.ENTRIES:
        study = entry.study()
        runs = expand(replace(study, blocks=tuple(map(reading.apply, study.blocks))))
        ids = np.concatenate([runs.ids_of_version(version) for version in versions])
        out.append((entry.name, len(done.intersection(ids.astype(str).tolist())), len(runs)))
    return out


def markdown(claims: Sequence[Claim]) -> str:
    """Return the comparison as a table, with each claim's rule and notes below it."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---|---|---|---:|---|"]
    for claim in claims:
        cells = (
            f"({claim.number}) {claim.text}",
            claim.paper,
            claim.ours,
            claim.interval,
            f"{claim.runs:,}",
            f"**{claim.verdict}**",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines.append("")
    for claim in claims:
        note = f" *Here:* {claim.note}." if claim.note else ""
        lines.append(f"- ({claim.number}) *Rule:* {claim.rule}.{note}")
    return "\n".join(lines) + "\n"


def _csv(claims: Sequence[Claim]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(asdict(claims[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(claim) for claim in claims)
    return text.getvalue()


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
h1, h2 { line-height: 1.2; }
table { border-collapse: collapse; font-size: 0.85rem; width: 100%; }
th, td { border-bottom: 1px solid #ccc; padding: 0.35rem 0.5rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
td.verdict { white-space: nowrap; }
.verdict b { border-radius: 3px; padding: 0.1rem 0.35rem; }
.reproduced b { background: #cfe8d5; } .not-reproduced b { background: #f6cfc4; }
.not-decided b { background: #e6e6e6; }
figure { margin: 1.5rem 0 2.5rem; } figure img { width: 100%; height: auto; }
.note { color: #555; font-size: 0.85rem; }
pre { overflow-x: auto; background: #f5f5f5; padding: 0.75rem; font-size: 0.75rem; }
@media (prefers-color-scheme: dark) {
  body { background: #16181b; color: #e6e6e6; } th, td { border-color: #444; }
  .reproduced b { background: #23492f; } .not-reproduced b { background: #6b2c1c; }
  .not-decided b { background: #3a3d41; } pre { background: #222529; } .note { color: #aaa; }
  figure img { background: #fff; }
}
"""


def _page(claims: Sequence[Claim], drawn: Sequence[Drawn], head: _Head, runs: Runs) -> str:
    progress = head.progress
    text = html.escape
    done, total = sum(d for _, d, _ in progress), sum(t for _, _, t in progress)
    rows = "".join(
        f"<tr><td>({text(c.number)}) {text(c.text)}</td><td>{text(c.paper)}</td>"
        f"<td>{text(c.ours)}</td><td>{text(c.interval)}</td><td class=number>{c.runs:,}</td>"
        f'<td class="verdict {c.verdict.replace(" ", "-")}"><b>{text(c.verdict)}</b></td></tr>'
        for c in claims
    )
    notes = "".join(
        f"<li>({text(c.number)}) {text(c.rule)}."
        + (f" <i>Here:</i> {text(c.note)}." if c.note else "")
        + "</li>"
        for c in claims
    )
    studies = "".join(
        f"<tr><td>{text(name)}</td><td class=number>{here:,}</td><td class=number>{of:,}</td></tr>"
        for name, here, of in progress
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>The paper, reproduced</title><style>{_STYLE}</style></head><body>
<h1>The paper, reproduced as far as it was run</h1>
{head.side_by_side}{_foreign(head.foreign)}
<h2>Claims under the reading {text(head.reading)}</h2>
<p>{done:,} of the paper's {total:,} runs. {text(_where(runs.table))}</p>
<table><thead><tr>{"".join(f"<th>{text(h)}</th>" for h in _HEAD)}</tr></thead>
<tbody>{rows}</tbody></table>
<p>Verdicts follow these rules:</p>
<ul class=note>{notes}</ul>
<h2>What was run</h2>
<table><thead><tr><th>study</th><th>runs here</th><th>runs in the paper</th></tr></thead>
<tbody>{studies}</tbody></table>
<h2>Figures and tables</h2>
{"".join(_figure(each) for each in drawn)}
{_table_2(runs)}
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


def _table_2(runs: Runs) -> str:
    """Table 2, which needs no runs."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table_2.HEAD)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table_2.rows(runs.expected)
    )
    return (
        "<h3>Table 2: Fixed hyperparameters</h3>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
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
                + (f" ({formatting.counted(count, 'run')})" if len(counts) > 1 else "")
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
