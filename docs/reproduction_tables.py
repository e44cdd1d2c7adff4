"""Write tables and pictures from the published results; nothing by hand.

    python docs/reproduction_tables.py

Reads results/paper/<reading> and results/readings. Fills the places between `<!-- NAME -->` and
`<!-- end of NAME -->` in docs/reproduction.md, docs/tuning.md and README.md, and draws
docs/images/paper_*.png. A test compares the files with what this makes of the results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mirrorax.analysis.estimates import Interval
from mirrorax.analysis.few_seeds import seeds_in_words
from mirrorax.analysis.landscape import DIVERGED, Landscape, landscapes
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.region import region
from mirrorax.analysis.scores import cell_scores, environment_scores, frequency, rbst
from mirrorax.analysis.temperature import NAMES, STRIP, THRESHOLDS, Minimal, minimal_temperatures
from mirrorax.errors import UserError
from mirrorax.figures.heatmap import HeatMap, draw_panel
from mirrorax.figures.robustness_table import limit_text
from mirrorax.figures.style import COLOURS, PAGE, new, save, style
from mirrorax.paper import agreement, fingerprint, matrix
from mirrorax.paper.axes import PAIRS, SUITE
from mirrorax.paper.claim import ends
from mirrorax.paper.claims_on_pairs import best_cell, table_1
from mirrorax.paper.collection import collect
from mirrorax.paper.drawing import draw
from mirrorax.paper.implications import implications
from mirrorax.paper.matrix import judge_all
from mirrorax.paper.panels import CARTPOLES, FIGURES, Panel
from mirrorax.paper.readings import FIRST, reading, readings
from mirrorax.paper.readings_pictures import draw_agreement, draw_fingerprint, draw_matrix
from mirrorax.paper.readings_report import agreements, fingerprints
from mirrorax.paper.report import markdown, progress
from mirrorax.paper.runs import Runs
from mirrorax.paper.table_1 import printed_rbst
from mirrorax.store import read_results
from mirrorax.tuning.evidence import gather
from mirrorax.tuning.validation import Validation, validate

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
SEED = 0
PAGES = ("docs/reproduction.md", "docs/tuning.md", "README.md")

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


def line(*cells: str) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"


def reading_rows() -> list[dict]:
    """Return what each reading came to, over the cells that all of them have."""
    rows = []
    for name, (update, total, other) in READINGS.items():
        path = RESULTS / "readings" / f"{name}.parquet"
        if not path.exists():
            continue
        table = read_results(path)
        (item,) = landscapes(table)
        item = item.select(SUITE)
        scores = cell_scores(item.runs())
        positive = scores[item.cells("positive")]
        shape = region(scores, item.alphas, item.lams, 0.9)
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
                "alphas": _band(shape.alpha_band),
                "lams": _band(shape.lam_band),
                "map": HeatMap(scores, item.alphas, item.lams, _title(update, total, other)),
            }
        )
    return rows


def _band(values: np.ndarray) -> str:
    return ", ".join(f"{value:g}" for value in values) or "none"


def _per_update(settings) -> int:
    each = settings["env_steps_per_update"]
    return each * settings["num_envs"] if settings["steps_counted"] == "per_env" else each


def _title(update: str, total: str, other: str) -> str:
    text = f"256 {update},\n$10^6$ {total}"
    return f"{text}, uniform" if other else text


def reading_table(rows: list[dict]) -> str:
    lines = [
        "| 256 steps per update | 10^6 steps | besides | updates | runs | (0, 0) | best cell "
        "| cells >= 0.9 | Rbst_0.9 | arm of alphas | arm of lambdas |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|---|",
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
            row["alphas"],
            row["lams"],
        )
        lines.append(line(*cells))
    return "\n".join(lines)


def changed_settings() -> dict[str, Landscape]:
    """Return the runs with one setting changed, by what was changed."""
    found = landscapes(read_results(RESULTS / "readings" / "settings.parquet"))
    by_change = {item.label.partition("[")[2].rstrip("]"): item.select(SUITE) for item in found}
    if unnamed := by_change.keys() - CHANGES.keys():
        raise ValueError(f"no words for {sorted(unnamed)}")
    return {CHANGES[name]: by_change[name] for name in CHANGES if name in by_change}


def settings_table(items: dict[str, Landscape]) -> str:
    head = " | ".join(f"{name} {place}" for name, place in zip(CELLS, _places(items), strict=True))
    lines = [f"| changed | runs | {head} |", "|---|---:|" + "---|" * len(CELLS)]
    for name, (count, runs) in _changes(items).items():
        scores = _rounded(cell_scores(runs))
        cells = [f"{scores[at]:.2f}, {seeds_in_words(runs[at])}" for at in CELLS.values()]
        lines.append(line(name, count, *cells))
    return "\n".join(lines)


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


def plain_table(runs: Runs) -> str:
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
    lines = [
        "| (alpha, lambda) | `tsallis(0.5)` | written in probabilities | runs | diverged |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        line(f"({alpha:g}, {lam:g})", f"{a:.3f}", f"{b:.3f}", f"{count}", f"{failed}")
        for a, b, (alpha, lam), count, failed in pairs
    ]
    return "\n".join(lines)


def compared(runs: Runs) -> str:
    """Table 1 with ours beside the paper's."""
    levels = (0.9, 0.95)
    by_level = [table_1(runs, level=level) for level in levels]
    found = by_level[0][0]
    theirs = [printed_rbst(level) for level in levels]
    lines = [
        "| | pair | Rbst_0.9: paper | ours | 95%, as many seeds | infinitely many "
        "| Rbst_0.95: paper | ours | 95%, as many seeds | infinitely many "
        "| best cell (alpha, lambda) | held out | runs |",
        "|---|---|---:|---:|---|---|---:|---:|---|---|---|---:|---:|",
    ]
    for label, (h, d) in PAIRS.items():
        cells = [label, f"({h}, {d})"]
        if label not in found:
            lines.append(line(*cells, f"{theirs[0][label]:.4f}", *[""] * 9, "0"))
            continue
        whole = runs.find(Panel(label, (h, d)), every_seed=True)
        item, chosen = whole.landscape, best_cell(whole)
        tuning, held = chosen.tuning, chosen.held_out
        i, j = tuning.fixed_cell
        for paper, (_, estimates) in zip(theirs, by_level, strict=True):
            estimate = estimates[label]
            cells += [f"{paper[label]:.4f}", f"{estimate.value:.3f}", ends(estimate.interval())]
            cells.append(limit_text(estimate, 3))
        cells += [
            f"{tuning.fixed:.3f} at ({item.alphas[i]:g}, {item.lams[j]:g})",
            "none" if held is None else f"{held:.3f}",
            f"{found[label].runs:,}",
        ]
        lines.append(line(*cells))
    return "\n".join(lines)


def limits(runs: Runs) -> str:
    """Scores where h weighs least, by drift: pairs with the same one should agree there."""
    theirs = printed_rbst(0.9)
    drifts = [d for _, d in PAIRS.values()]
    shared = [d for d in dict.fromkeys(drifts) if drifts.count(d) > 1]
    alpha, lams = 0.004, (2.5, 25.0, 1000.0)
    places = " | ".join(f"({alpha:g}, {lam:g})" for lam in lams)
    lines = [
        f"| drift | potential | paper's Rbst_0.9 | {places} |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for drift in shared:
        for label, (h, d) in PAIRS.items():
            if d != drift or (found := runs.find(Panel(label, (h, d)))) is None:
                continue
            item = found.landscape
            row = cell_scores(item.runs())[item.alphas == alpha][0]
            scores = [f"{row[item.lams == lam][0]:.2f}" for lam in lams]
            lines.append(line(drift, h, f"{theirs[label]:.4f}", *scores))
    return "\n".join(lines)


def minimal(runs: Runs) -> str:
    """The numbers of Figure 4: the smallest temperatures that work, and how they grow."""
    columns = [(way, threshold) for way in NAMES for threshold in THRESHOLDS]
    strips = {way: runs.strip(CARTPOLES, way) for way in NAMES}
    lines = [
        line("maximum return", *(f"{NAMES[way]}, {threshold:g}" for way, threshold in columns)),
        "|---:|" + "---|" * len(columns),
    ]
    if None in strips.values():
        return "\n".join(lines)
    by_column = [
        minimal_temperatures(strips[way].landscape, way, threshold, strip=STRIP)
        for way, threshold in columns
    ]
    for row in zip(*by_column, strict=True):
        values = (f"{point.value:g}" if point.known else "none" for point in row)
        lines.append(line(f"{row[0].max_return:g}", *values))
    lines.append(line("exponent", *map(_exponent, by_column)))
    lowest = by_column[0][0].max_return
    rest = (_exponent(points[1:]) for points in by_column)
    return "\n".join([*lines, line(f"without {lowest:g}", *rest)])


def _exponent(points: Sequence[Minimal]) -> str:
    try:
        law = power_law(points)
    except UserError:
        return "too few values"
    return f"{law.exponent:.2f} {ends(Interval(law.low, law.high), 2)}"


def validation(found: Validation) -> str:
    """How good the suggestions are where they have not seen the environment."""
    head = " | ".join(SUITE)
    lines = [
        f"| pair | {head} | suggested | a random cell | the best single cell, which saw them all |",
        "|---|" + "---|" * len(SUITE) + "---|---|---|",
    ]
    pairs = dict.fromkeys((row.potential, row.drift) for row in found.rows)
    for pair in [*pairs, None]:
        part = found if pair is None else found.of(pair)
        scores = {
            row.environment: f"**{row.score:.2f}**" if row.success else f"{row.score:.2f}"
            for row in (part.rows if pair else ())
        }
        count = len(part.rows)
        cells = [
            "all" if pair is None else f"({', '.join(pair)})",
            *(scores.get(name, "") for name in SUITE),
            f"{sum(row.success for row in part.rows)} of {count}",
            f"{100 * part.random:.0f}%",
            f"{sum(row.fixed for row in part.rows)} of {count}",
        ]
        lines.append(line(*cells))
    return "\n".join(lines)


def studies(table) -> str:
    """How many runs of the paper's studies there are under the first reading."""
    lines = ["| study | runs here | runs in the paper |", "|---|---:|---:|"]
    rows = progress(table, reading(FIRST))
    rows.append(("all", sum(done for _, done, _ in rows), sum(whole for *_, whole in rows)))
    lines += [line(name, f"{done:,}", f"{whole:,}") for name, done, whole in rows]
    return "\n".join(lines)


def declared(runs: Mapping[str, Runs]) -> str:
    """The declared readings, and how many runs there are of each."""
    lines = ["| reading | what it is | updates | batches | runs here |", "|---|---|---:|---:|---:|"]
    for each in readings().values():
        updates = each.settings("CartPole").updates
        batches = updates * each.settings("CartPole").batches_per_update
        count = runs[each.name].count if each.name in runs else 0
        lines.append(line(each.name, each.title, f"{updates:,}", f"{batches:,}", f"{count:,}"))
    return "\n".join(lines)


def implied() -> str:
    """What Table 1 implies, and where that is looked at."""
    lines = ["| | pair | alpha | lambda | score | why |", "|---|---|---|---|---|---|"]
    for each in implications():
        values = [", ".join(f"{value:g}" for value in part) for part in (each.alpha, each.lam)]
        lines.append(line(each.name, f"({', '.join(each.pair)})", *values, each.bound, each.why))
    return "\n".join(lines)


def fill(text: str, name: str, content: str) -> str:
    """Replace what stands between a place's marks."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no place for {name!r}")
    return pattern.sub(lambda found: found[1] + content + "\n" + found[2], text)


def pages() -> dict[Path, str]:
    """Return the files with their tables filled in."""
    collection = collect(RESULTS / "paper").runs
    runs = collection[FIRST]
    verdicts = judge_all(collection, SEED)
    places = {
        "summary": matrix.summary(verdicts),
        "matrix": matrix.markdown(verdicts),
        "declared": declared(collection),
        "implied": implied(),
        "fingerprint": fingerprint.table(fingerprints(collection, SEED)),
        **{
            f"agreement {level:g}": agreement.table(each)
            for level, each in agreements(collection, SEED).items()
        },
        "verdicts": markdown(verdicts.claims[FIRST]),
        "table 1": compared(runs),
        "minimal": minimal(runs),
        "limits": limits(runs),
        "runs": studies(runs.table),
        "readings": reading_table(reading_rows()),
        "settings": settings_table(changed_settings()),
        "plain": plain_table(runs),
    }
    page, tuning, readme = (ROOT / name for name in PAGES)
    text = page.read_text(encoding="utf-8")
    for name, content in places.items():
        text = fill(text, name, content.strip())
    advice = validation(validate(gather(runs.table)))
    return {
        page: text,
        tuning: fill(tuning.read_text(encoding="utf-8"), "validation", advice),
        readme: fill(readme.read_text(encoding="utf-8"), "verdicts", matrix.grouped(verdicts)),
    }


def pictures() -> None:
    """Draw the images of the page."""
    images = ROOT / "docs" / "images"
    collection = collect(RESULTS / "paper").runs
    rows = reading_rows()
    with style():
        figure, _ = new(PAGE, PAGE * 0.34)
        figure.clear()
        draw_panel([row["map"] for row in rows], figure, columns=len(rows))
        drawings = {
            "readings": figure,
            "verdicts": draw_matrix(judge_all(collection, SEED)),
            "fingerprint": draw_fingerprint(fingerprints(collection, SEED)),
        }
        for level, each in agreements(collection, SEED).items():
            drawings[f"agreement_{level:g}"] = draw_agreement(each)
        for name, drawing in drawings.items():
            save(drawing, images / f"paper_{name}", ("png",))
        draw_settings(changed_settings(), images / "paper_settings")
    for each in FIGURES:
        if each.name not in ("Figure 1a", "Figure 2", "Figure 4"):
            continue
        drawn = draw(each, collection[FIRST], images)
        for path in drawn.files:
            if path.suffix == ".png" and not drawn.missing:
                path.replace(images / f"paper_{path.name}")
            else:
                path.unlink()


if __name__ == "__main__":
    for file, content in pages().items():
        file.write_text(content, encoding="utf-8")
    pictures()
