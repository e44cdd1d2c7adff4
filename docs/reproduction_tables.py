"""Write tables and pictures from the published results; nothing by hand.

    python docs/reproduction_tables.py

Reads results/paper/<reading> and results/readings. Fills the places between `<!-- NAME -->` and
`<!-- end of NAME -->` in docs/reproduction.md, docs/tuning.md and README.md, and draws
docs/images/paper_*.png. A test compares the files with what this makes of the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from places import fill

from mirrorax.analysis.estimates import Interval
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.region import region
from mirrorax.analysis.scores import (
    cell_scores,
    environment_scores,
    frequency,
    rbst,
    seeds_in_words,
)
from mirrorax.analysis.temperature import THRESHOLDS, Minimal, minimal_temperatures
from mirrorax.errors import UserError
from mirrorax.figures.heatmap import HeatMap, draw_panel
from mirrorax.figures.robustness_table import limit_text
from mirrorax.figures.style import COLOURS, PAGE, new, save, style
from mirrorax.formatting import counted, markdown_table
from mirrorax.paper import agreement, fingerprint, matrix
from mirrorax.paper.axes import NAMES, PAIRS, SEEDS, SUITE
from mirrorax.paper.best_cells import best_cell
from mirrorax.paper.claim import ends
from mirrorax.paper.claims_on_pairs import order, table_1
from mirrorax.paper.collection import collect
from mirrorax.paper.drawing import draw
from mirrorax.paper.implications import implications
from mirrorax.paper.matrix import judge_all
from mirrorax.paper.panels import CARTPOLES, FIGURES, Panel
from mirrorax.paper.random_cells import LARGEST, random_cells
from mirrorax.paper.readings import FIRST, reading, readings
from mirrorax.paper.report import progress, rules, table
from mirrorax.paper.runs import ReadingRuns
from mirrorax.paper.side_by_side import agreements, fingerprints
from mirrorax.paper.side_by_side import pictures as readings_side_by_side
from mirrorax.paper.table_1 import printed_rbst
from mirrorax.runs.scoring import DIVERGED
from mirrorax.store import read_results
from mirrorax.tuning.evidence import gather
from mirrorax.tuning.validation import Validation, validate

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
SEED = 0
#: the reading that the fingerprint ranks first; the page has its details
LIKELIEST = "each64_all"
#: the figures of the paper that the page shows, for these readings
DETAILS = {
    LIKELIEST: ("Figure 1a", "Figure 1b", "Figure 2", "Figure 3", "Figure 4"),
    FIRST: ("Figure 1a", "Figure 2", "Figure 4"),
}

#: file in results/readings -> (what "steps" counts between updates, and in all; what else differs)
READINGS = {
    "all_all": ("in all", "in all", ""),
    "each_all": ("in each", "in all", ""),
    "each_all_uniform": ("in each", "in all", "uniform initialisation"),
    "each_each": ("in each", "in each", ""),
    "each_each_uniform": ("in each", "in each", "uniform initialisation"),
}

#: what differs from the preset in results/readings/settings.parquet -> in words
CHANGES = {
    "": "nothing",
    "initialization=uniform": "uniform initialisation",
    "activation=relu": "ReLU",
    "adam_eps=1e-08": "Adam's eps 1e-8",
    "anneal_learning_rate=True": "annealed learning rate",
    "twin_critics=False": "one critic",
    "critic_target=printed": "critic target as printed",
    "critic_target=paper": "critic target as defined",
    "clipping=joint": "joint clipping",
    "bootstrap_truncation=False": "truncation ends an episode",
    "tau=0.05": "tau for the new parameters",
}
#: the cells of that experiment, as (alpha index, lambda index)
CELLS = {"neither": (0, 0), "h alone": (1, 0), "D alone": (0, 1), "both": (1, 1)}


def step_readings() -> tuple[str, list[HeatMap]]:
    """What each way to count steps came to, on the cells that all have: a table and maps."""
    rows, maps = [], []
    for name, (update, total, other) in READINGS.items():
        path = RESULTS / "readings" / f"{name}.parquet"
        if not path.exists():
            continue
        table = read_results(path)
        item = landscapes(table)[0].select(SUITE)
        scores = cell_scores(item.runs())
        positive = scores[item.cells("positive")]
        shape = region(scores, item.alphas, item.lams, 0.9)
        rows.append(
            (
                *(update, total, other),
                f"{table.configurations[0].settings.updates:,}",
                f"{len(table)}",
                f"{scores[0, 0]:.3f}",
                f"{np.nanmax(positive):.3f}",
                f"{100 * float(frequency(positive, np.array([0.9]))[0]):.0f}%",
                f"{rbst(positive, 0.9):.3f}",
                _band(shape.alpha_band),
                _band(shape.lam_band),
            )
        )
        maps.append(HeatMap(scores, item.alphas, item.lams, _title(update, total, other)))
    head = ("256 steps per update", "10^6 steps", "besides", "updates", "runs", "(0, 0)")
    head += ("best cell", "cells >= 0.9", "Rbst_0.9", "arm of alphas", "arm of lambdas")
    return markdown_table(head, rows, "lllrrrrrrl"), maps


def _band(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


def _title(update: str, total: str, other: str) -> str:
    return f"256 {update},\n$10^6$ {total}" + (", uniform" if other else "")


def changed_settings() -> dict[str, Landscape]:
    """Return the runs with one setting changed, by what was changed."""
    found = landscapes(read_results(RESULTS / "readings" / "settings.parquet"))
    by_change = {item.label.partition("[")[2].rstrip("]"): item.select(SUITE) for item in found}
    if unnamed := by_change.keys() - CHANGES.keys():
        raise ValueError(f"no words for {sorted(unnamed)}")
    return {CHANGES[name]: by_change[name] for name in CHANGES if name in by_change}


def settings_table(items: dict[str, Landscape]) -> str:
    head = [f"{name} {place}" for name, place in zip(CELLS, _places(items), strict=True)]
    rows = []
    for name, (count, runs) in _changes(items).items():
        scores = _rounded(cell_scores(runs))
        cells = [f"{scores[at]:.2f}, {seeds_in_words(runs[at])}" for at in CELLS.values()]
        rows.append([name, count, *cells])
    return markdown_table(["changed", "runs", *head], rows, "lrl")


def _changes(items: dict[str, Landscape]) -> dict[str, tuple[str, np.ndarray]]:
    """Return the number of runs and the scores of each row; the first is seen in two ways."""
    rows = {name: (str(item.counts.sum()), item.runs()) for name, item in items.items()}
    first = items[CHANGES[""]]
    return {**rows, "greedy evaluation": ("the first", first.runs("greedy"))}


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.round(values, 2) + 0.0  # which makes -0 a 0


def _places(items: dict[str, Landscape]) -> list[str]:
    first = next(iter(items.values()))
    return [f"({first.alphas[i]:g}, {first.lams[j]:g})" for i, j in CELLS.values()]


def draw_settings(items: dict[str, Landscape], path: Path) -> None:
    """Draw the score of every environment: a row for what was changed, a panel for a cell."""
    rows = _changes(items)
    figure, axes = new(PAGE, 0.6 + 0.24 * len(rows), ncols=len(CELLS), sharey=True)
    for ax, (name, at), place in zip(axes, CELLS.items(), _places(items), strict=True):
        scores = _rounded(np.stack([environment_scores(runs)[at] for _, runs in rows.values()]))
        mesh = ax.imshow(scores, cmap=COLOURS, vmin=0, vmax=1, aspect="auto")
        for (row, column), score in np.ndenumerate(scores):
            colour = "white" if score < 0.6 else "black"
            ax.text(column, row, f"{score:.2f}", ha="center", va="center", color=colour, size=6)
        ax.set_title(f"{name} {place}")
        ax.set_xticks(range(len(SUITE)), SUITE, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(rows)), list(rows))
        ax.tick_params(length=0)
    figure.colorbar(mesh, ax=axes, label="normalised return", fraction=0.03, pad=0.01)
    save(figure, path, ("png",))


def plain_table(runs: ReadingRuns) -> str:
    """The pair K with its potential written in two ways, at the cells that both have."""
    (plain,) = landscapes(read_results(RESULTS / "readings" / "plain_tsallis.parquet"))
    ours = runs.find(Panel("K", PAIRS["K"])).landscape
    rows = np.searchsorted(ours.alphas, plain.alphas)
    columns = np.searchsorted(ours.lams, plain.lams)
    pairs = zip(
        cell_scores(ours.runs())[np.ix_(rows, columns)].ravel(),
        cell_scores(plain.runs()).ravel(),
        np.stack(np.meshgrid(plain.alphas, plain.lams, indexing="ij"), axis=-1).reshape(-1, 2),
        plain.counts.sum(axis=-1).ravel(),
        (plain.state == DIVERGED).sum(axis=(-2, -1)).ravel(),
        strict=True,
    )
    rows = [
        (f"({alpha:g}, {lam:g})", f"{a:.3f}", f"{b:.3f}", f"{count}", f"{failed}")
        for a, b, (alpha, lam), count, failed in pairs
    ]
    head = ("(alpha, lambda)", "`tsallis(0.5)`", "written in probabilities", "runs", "diverged")
    return markdown_table(head, rows, "lr")


def slips_table(runs: ReadingRuns) -> str:
    """The pair K with the sign of its potential turned, at its points of the fingerprint."""
    turned = read_results(RESULTS / "readings" / "slips.parquet").table()
    ours = runs.table.table().filter(pc.field("potential") == "tsallis(0.5)")
    cells = [_mean_scores(table) for table in (ours, turned)]
    names = ("flipped_tsallis", "flipped_in_critic", "flipped_in_actor")
    rows = []
    for _, alpha, lam in sorted(cell for cell in cells[1] if cell[0] == names[0]):
        scores = [cells[0]["tsallis(0.5)", alpha, lam]]
        scores += [cells[1][name, alpha, lam] for name in names]
        rows.append((f"({alpha:g}, {lam:g})", *(f"{score:.3f}" for score in scores)))
    return markdown_table(
        ("(alpha, lambda)", "`tsallis(0.5)`", "both places", "critics alone", "actor alone"),
        rows,
        "lr",
    )


def _mean_scores(table: pa.Table) -> dict[tuple[str, float, float], float]:
    """Return the mean score of the runs with drift KL, by (potential, alpha, lambda)."""
    table = table.filter(pc.field("drift") == "kl")
    means = table.group_by(["potential", "alpha", "lam"]).aggregate([("score", "mean")])
    columns = (means[name].to_pylist() for name in ("potential", "alpha", "lam", "score_mean"))
    return {(h, alpha, lam): score for h, alpha, lam, score in zip(*columns, strict=True)}


def compared(runs: ReadingRuns) -> str:
    """Table 1 with ours beside the paper's."""
    levels = (0.9, 0.95)
    by_level = [table_1(runs, level=level) for level in levels]
    panels = by_level[0][0]
    theirs = [printed_rbst(level) for level in levels]
    head = ["", "pair"]
    for level in levels:
        head += [f"Rbst_{level:g}: paper", "ours", "95%, as many seeds", "infinitely many"]
    head += ["best cell (alpha, lambda)", "held out", "runs"]
    rows = []
    for label, (h, d) in PAIRS.items():
        cells = [label, f"({h}, {d})"]
        if label not in panels:
            rows.append([*cells, f"{theirs[0][label]:.4f}", *[""] * 9, "0"])
            continue
        best = best_cell(runs.find(Panel(label, (h, d)), every_seed=True))
        for paper, (_, estimates) in zip(theirs, by_level, strict=True):
            estimate = estimates[label]
            cells += [f"{paper[label]:.4f}", f"{estimate.value:.3f}", ends(estimate.interval())]
            cells.append(limit_text(estimate, 3))
        cells += [
            f"{best.tuning.fixed:.3f} at ({best.alpha:g}, {best.lam:g})",
            "none" if best.held_out is None else f"{best.held_out:.3f}",
            f"{panels[label].runs:,}",
        ]
        rows.append(cells)
    return markdown_table(head, rows, "llrrllrrlllr")


def values_by_reading(runs: Mapping[str, ReadingRuns]) -> str:
    """Rbst_0.9 of each pair under each reading that has them all, on the cells they share."""
    found = {name: table_1(each, same=True)[1] for name, each in runs.items()}
    whole = {name: each for name, each in found.items() if len(each) == len(PAIRS)}
    printed = printed_rbst(0.9)
    rows = [
        [
            label,
            f"({h}, {d})",
            f"{printed[label]:.3f}",
            *(f"{e[label].value:.3f}" for e in whole.values()),
        ]
        for label, (h, d) in PAIRS.items()
    ]
    return markdown_table(["", "pair", "paper", *whole], rows, "ll" + "r" * (len(whole) + 1))


def order_by_seeds(runs: ReadingRuns, name: str) -> str:
    """Rbst_0.9 of each pair, and the rank correlation with the paper, by the number of seeds."""
    seeds = runs.table.numbers("seed")
    rows = []
    for count in range(2, SEEDS + 1):
        some = ReadingRuns(runs.table.take(np.flatnonzero(seeds < count)), reading(name))
        panels, estimates = table_1(some, same=True)
        if len(panels) < len(PAIRS) or min(each.seeds[0] for each in panels.values()) < count:
            break
        found = order(some, np.random.default_rng(SEED))
        values = (f"{estimates[label].value:.3f}" for label in PAIRS)
        rows.append([str(count), *values, f"{found.ours} {found.interval}"])
    return markdown_table(["seeds", *PAIRS, "correlation"], rows, "r" * (len(PAIRS) + 1) + "l")


def limits(runs: ReadingRuns) -> str:
    """Scores where h weighs least, by drift: pairs with the same one should agree there."""
    theirs, drifts = printed_rbst(0.9), [d for _, d in PAIRS.values()]
    shared = [d for d in dict.fromkeys(drifts) if drifts.count(d) > 1]
    alpha, lams = 0.004, (2.5, 25.0, 1000.0)
    rows = []
    for drift in shared:
        for label, (h, d) in PAIRS.items():
            if d != drift or (found := runs.find(Panel(label, (h, d)))) is None:
                continue
            item = found.landscape
            row = cell_scores(item.runs())[item.alphas == alpha][0]
            scores = [f"{row[item.lams == lam][0]:.2f}" for lam in lams]
            rows.append([drift, h, f"{theirs[label]:.4f}", *scores])
    places = [f"({alpha:g}, {lam:g})" for lam in lams]
    return markdown_table(["drift", "potential", "paper's Rbst_0.9", *places], rows, "llr")


def minimal(runs: ReadingRuns) -> str:
    """The numbers of Figure 4: the smallest temperatures that work, and how they grow."""
    columns = [(way, threshold) for way in NAMES for threshold in THRESHOLDS]
    strips = {way: runs.strip(CARTPOLES, way) for way in NAMES}
    head = ["maximum return", *(f"{NAMES[way]}, {threshold:g}" for way, threshold in columns)]
    if None in strips.values():
        return markdown_table(head, [], "rl")
    by_column = [
        minimal_temperatures(strips[way].landscape, way, threshold) for way, threshold in columns
    ]
    rows = []
    for row in zip(*by_column, strict=True):
        values = (f"{point.value:g}" if point.known else "none" for point in row)
        rows.append([f"{row[0].max_return:g}", *values])
    rows.append(["exponent", *map(_exponent, by_column)])
    lowest = by_column[0][0].max_return
    rows.append([f"without {lowest:g}", *(_exponent(points[1:]) for points in by_column)])
    return markdown_table(head, rows, "rl")


def _exponent(points: Sequence[Minimal]) -> str:
    try:
        law = power_law(points)
    except UserError:
        return "too few values"
    return f"{law.exponent:.2f} {ends(Interval(law.low, law.high), 2)}"


def validation(found: Validation) -> str:
    """How good the suggestions are where they have not seen the environment."""
    rows = []
    pairs = dict.fromkeys((row.potential, row.drift) for row in found.rows)
    joint = replace(found, rows=found.joint)
    parts = {f"({', '.join(pair)})": found.of(pair) for pair in pairs}
    for name, part in {**parts, "all": found, "the pair chosen, too": joint}.items():
        scores = {
            row.environment: f"**{row.score:.2f}**" if row.success else f"{row.score:.2f}"
            for row in (part.rows if part is not found else ())
        }
        count = len(part.rows)
        cells = [
            name,
            *(scores.get(name, "") for name in SUITE),
            f"{sum(row.success for row in part.rows)} of {count}",
            f"{100 * part.random:.0f}%",
            f"{sum(row.fixed for row in part.rows)} of {count}",
            f"{sum(bool(row.default) for row in part.rows)} of {count}",
        ]
        rows.append(cells)
    best = "the best single cell, which saw them all"
    head = ["pair", *SUITE, "suggested", "a random cell", best, "the default"]
    return markdown_table(head, rows)


def studies(runs: ReadingRuns) -> str:
    """How many runs of the paper's studies there are under the first reading."""
    rows = progress(runs, reading(FIRST))
    rows.append(("all", *(sum(row[k] for row in rows) for k in (1, 2))))
    cells = [(name, f"{done:,}", f"{whole:,}") for name, done, whole in rows]
    return markdown_table(("study", "runs here", "runs in the paper"), cells, "lr")


def declared(runs: Mapping[str, ReadingRuns]) -> str:
    """The declared readings, and how many runs there are of each."""
    rows = []
    for each in readings().values():
        updates = each.settings("CartPole").updates
        batches = updates * each.settings("CartPole").batches_per_update
        count = runs[each.name].count if each.name in runs else 0
        rows.append([each.name, each.title, f"{updates:,}", f"{batches:,}", f"{count:,}"])
    return markdown_table(["reading", "what it is", "updates", "batches", "runs here"], rows, "llr")


def extents(runs: Mapping[str, ReadingRuns]) -> str:
    """The cells and seeds of each reading: the fewest of the panels that a column stands for."""
    figures = {figure.name: figure.panels for figure in FIGURES}
    columns = {
        "Table 1": figures["Table 1"],
        "APMD": figures["Figure 1c"],
        "larger Catch": figures["Figure 1b"],
        "forward KL": tuple(p for p in figures["Figure 5"] if p.pair[1] == "forward_kl"),
        "schedules": figures["Figure 3"],
    }
    rows = []
    for name in readings():
        cells = [""] * (len(columns) + 1)
        if each := runs.get(name):
            cells = [_extent(each, panels) for panels in columns.values()]
            strips = (each.strip(CARTPOLES, axis) for axis in ("alpha", "lam"))
            seeds = [strip.seeds[0] for strip in strips if strip is not None]
            cells.append(counted(min(seeds), "seed") if len(seeds) == 2 else "")
        rows.append([name, *cells])
    return markdown_table(["reading", *columns, "CartPole strips"], rows)


def _extent(runs: ReadingRuns, panels: Sequence[Panel]) -> str:
    grids = [runs.on_grid(panel) for panel in panels]
    if any(grid is None for grid in grids):
        return ""
    alphas, lams = np.min([grid.given.shape for grid in grids], axis=0)
    return f"{alphas} x {lams}, {counted(min(grid.seeds[0] for grid in grids), 'seed')}"


def random_cells_table(runs: Mapping[str, ReadingRuns]) -> str:
    """Rbst_0.9 of the whole grid from random cells, for each pair and reading that has them."""
    printed = printed_rbst(0.9)
    head = ["reading", *(f"{label} (paper {printed[label]:.4f})" for label in LARGEST), "runs"]
    rows = []
    for name, each in runs.items():
        if cells := random_cells(each):
            texts = []
            for label in LARGEST:
                text = ""
                if of_pair := cells.get(label):
                    text = f"{of_pair.value:.3f} {ends(of_pair.interval)}"
                    text = text if of_pair.agrees(printed[label]) else f"**{text}**"
                texts.append(text)
            rows.append([name, *texts, f"{sum(len(of_pair.rows) for of_pair in cells.values()):,}"])
    return markdown_table(head, rows, "l" * (len(LARGEST) + 1) + "r")


def implied() -> str:
    """What Table 1 implies, and where that is looked at."""
    head = ("", "pair", "alpha", "lambda", "score", "why")
    rows = [
        (i.name, f"({', '.join(i.pair)})", _band(i.alpha), _band(i.lam), i.bound, i.why)
        for i in implications()
    ]
    return markdown_table(head, rows)


def pages() -> dict[Path, str]:
    """Return the files with their tables filled in."""
    collection = collect(RESULTS / "paper").runs
    runs = collection[FIRST]
    verdicts = judge_all(collection, SEED)
    places = {
        "summary": matrix.summary(verdicts),
        "matrix": matrix.markdown(verdicts),
        "declared": declared(collection),
        "extents": extents(collection),
        "implied": implied(),
        "values": values_by_reading(collection),
        "order by seeds": order_by_seeds(collection["each_all_8"], "each_all_8"),
        "random": random_cells_table(collection),
        "fingerprint": fingerprint.table(fingerprints(collection, SEED)),
        **{
            f"agreement {level:g}": agreement.table(each)
            for level, each in agreements(collection, SEED).items()
        },
        "rules": rules(verdicts.claims[FIRST]),
        f"verdicts of {LIKELIEST}": table(verdicts.claims[LIKELIEST]),
        f"table 1 of {LIKELIEST}": compared(collection[LIKELIEST]),
        f"minimal of {LIKELIEST}": minimal(collection[LIKELIEST]),
        "verdicts": table(verdicts.claims[FIRST]),
        "table 1": compared(runs),
        "minimal": minimal(runs),
        "limits": limits(runs),
        "runs": studies(runs),
        "readings": step_readings()[0],
        "settings": settings_table(changed_settings()),
        "plain": plain_table(runs),
        "slips": slips_table(collection[LIKELIEST]),
    }
    page, tuning, readme = (
        ROOT / name for name in ("docs/reproduction.md", "docs/tuning.md", "README.md")
    )
    advice = validation(validate(gather(runs.table))).strip()
    return {
        file: fill(file.read_text(encoding="utf-8"), contents)
        for file, contents in (
            (page, {name: content.strip() for name, content in places.items()}),
            (tuning, {"validation": advice}),
            (readme, {"verdicts": matrix.grouped(verdicts)}),
        )
    }


def pictures() -> None:
    """Draw the images of the page."""
    images = ROOT / "docs" / "images"
    collection = collect(RESULTS / "paper").runs
    _, maps = step_readings()
    with style():
        figure, _ = new(PAGE, PAGE * 0.34)
        figure.clear()
        draw_panel(maps, figure, columns=len(maps))
        save(figure, images / "paper_readings", ("png",))
        verdicts = judge_all(collection, SEED)
        prints, orders = fingerprints(collection, SEED), agreements(collection, SEED)
        for name, (*_, drawing) in readings_side_by_side(verdicts, prints, orders).items():
            save(drawing, images / f"paper_{name}", ("png",))
        draw_settings(changed_settings(), images / "paper_settings")
    for name, shown in DETAILS.items():
        for each in (figure for figure in FIGURES if figure.name in shown):
            drawn = draw(each, collection[name], images)
            for path in drawn.files:
                if path.suffix == ".png" and not drawn.missing:
                    path.replace(images / f"{name}_{path.name}")
                else:
                    path.unlink()


if __name__ == "__main__":
    for file, content in pages().items():
        file.write_text(content, encoding="utf-8")
    pictures()
