"""Write the reproduction's tables and pictures from the published results; nothing by hand.

    python docs/reproduction_tables.py

Reads results/paper and results/readings; fills the places between `<!-- NAME -->` and
`<!-- end of NAME -->` in docs/reproduction.md and README.md, and draws docs/images/paper_*.png.
A test compares the files with what this makes of the results.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.robustness import frequency, rbst
from mirrorax.analysis.scores import cell_scores
from mirrorax.figures.heatmap import HeatMap, draw_panel
from mirrorax.figures.save import save
from mirrorax.figures.style import PAGE, new, style
from mirrorax.reproduction.data import Runs
from mirrorax.reproduction.drawing import draw
from mirrorax.reproduction.page import markdown, progress
from mirrorax.reproduction.verdicts import judge
from mirrorax.store.importing import read_exports
from mirrorax.studies.panels import FIGURES, SUITE

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
SEED = 0

#: file in results/readings -> (what "steps" counts between updates, and in all; what else differs)
READINGS = {
    "all_all": ("in all", "in all", ""),
    "each_all": ("in each", "in all", ""),
    "each_all_uniform": ("in each", "in all", "uniform initialisation"),
    "each_each": ("in each", "in each", ""),
    "each_each_uniform": ("in each", "in each", "uniform initialisation"),
}


def reading_rows() -> list[dict]:
    """Return what each reading came to, over the cells that all of them have."""
    rows = []
    for name, (update, total, other) in READINGS.items():
        path = RESULTS / "readings" / f"{name}.parquet"
        if not path.exists():
            continue
        table = read_exports(path)
        (item,) = landscapes(table)
        item = item.select(SUITE)
        scores = cell_scores(item.runs())
        positive = scores[item.cells("positive")]
        rows.append(
            {
                "update": update,
                "total": total,
                "other": other,
                "updates": item.settings["steps"] // _per_update(item.settings),
                "runs": len(table),
                "none": scores[0, 0],
                "best": np.nanmax(positive),
                "good": float(frequency(positive, np.array([0.9]))[0]),
                "rbst": rbst(positive, 0.9),
                "map": HeatMap(scores, item.alphas, item.lams, _title(update, total, other)),
            }
        )
    return rows


def _per_update(settings) -> int:
    each = settings["env_steps_per_update"]
    return each * settings["num_envs"] if settings["steps_counted"] == "per_env" else each


def _title(update: str, total: str, other: str) -> str:
    text = f"256 {update},\n$10^6$ {total}"
    return f"{text}, uniform" if other else text


def readings(rows: list[dict]) -> str:
    lines = [
        "| 256 steps per update | 10^6 steps | besides | updates | runs | (0, 0) | best cell "
        "| cells >= 0.9 | Rbst_0.9 |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = (
            row["update"],
            row["total"],
            row["other"],
            f"{row['updates']:,}",
            f"{row['runs']}",
            f"{row['none']:.3f}",
            f"{row['best']:.3f}",
            f"{100 * row['good']:.0f}%",
            f"{row['rbst']:.3f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def brief(claims) -> str:
    """The table of the README: long lists of numbers are left to the documentation."""
    lines = [
        "| claim of the paper | paper | ours [95% interval] | runs | verdict |",
        "|---|---|---|---:|---|",
    ]
    for claim in claims:
        ours = claim.ours
        if claim.interval.startswith("["):
            ours += f" {claim.interval}"
        if len(ours) > 90:
            ours = "see the page"
        cells = (
            f"({claim.number}) {claim.text}",
            claim.paper,
            ours,
            f"{claim.runs:,}",
            claim.verdict,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def counted(table) -> str:
    lines = ["| study | runs here | runs in the paper |", "|---|---:|---:|"]
    rows = progress(table)
    lines += [f"| {name} | {done:,} | {whole:,} |" for name, done, whole in rows]
    lines.append(
        f"| all | {sum(done for _, done, _ in rows):,} | {sum(whole for *_, whole in rows):,} |"
    )
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between a place's marks."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no place for {name!r}")
    return pattern.sub(lambda found: found[1] + content + "\n" + found[2], text)


def pages() -> dict[Path, str]:
    """Return the files with their tables filled in."""
    table = read_exports(RESULTS / "paper")
    claims = judge(Runs(table), np.random.default_rng(SEED))
    page, readme = ROOT / "docs" / "reproduction.md", ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    text = fill(text, "readings", readings(reading_rows()))
    text = fill(text, "verdicts", markdown(claims).strip())
    text = fill(text, "runs", counted(table))
    return {page: text, readme: fill(readme.read_text(encoding="utf-8"), "verdicts", brief(claims))}


def pictures() -> None:
    images = ROOT / "docs" / "images"
    rows = reading_rows()
    with style():
        figure, _ = new(PAGE, PAGE * 0.34)
        figure.clear()
        draw_panel([row["map"] for row in rows], figure, columns=len(rows))
        save(figure, images / "paper_readings", ("png",))
    runs = Runs(read_exports(RESULTS / "paper"))
    for each in FIGURES:
        if each.name != "Figure 1a":
            continue
        drawn = draw(each, runs, images, np.random.default_rng(SEED))
        for path in drawn.files:
            if path.suffix == ".png":
                path.replace(images / f"paper_{path.name}")
            else:
                path.unlink()


if __name__ == "__main__":
    for file, content in pages().items():
        file.write_text(content, encoding="utf-8")
    pictures()
