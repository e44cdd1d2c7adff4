from __future__ import annotations

import csv
import io
import re
import shlex
from importlib import resources

import numpy as np
import pyarrow as pa
import pytest
from results import with_curves

from mirrorax.analysis.estimates import frequency_band, robustness
from mirrorax.analysis.findings import headline, telling_threshold
from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.scores import (
    cell_scores,
    environment_scores,
    frequency,
    mean_intervals,
    rbst,
    seeds_in_words,
)
from mirrorax.analysis.summary import summarise
from mirrorax.cli import parser_of
from mirrorax.figures import robustness_table
from mirrorax.paper.table_1 import reference


def numbers(text: str) -> list[float]:
    return [float(x.replace("−", "-")) for x in re.findall(r"[−-]?\d+\.?\d*(?:e[+-]?\d+)?", text)]


def rows_of(visit) -> list[list[str]]:
    return visit.page.locator("#table tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
    )


def column(visit, name: str) -> int:
    heads = visit.page.locator("#table thead th button").evaluate_all(
        "heads => heads.map(h => h.dataset.key)"
    )
    return heads.index(name)


def chosen(visit, table):
    """The landscape of the pair that the page shows."""
    label = visit.page.locator("#pair option:checked").inner_text()
    return next(item for item in landscapes(table) if label.endswith(item.label))


def test_it_loads_without_error_and_asks_for_nothing(visit, table):
    seen = visit(table)
    assert seen.errors == []
    assert all(url.startswith("file:") and url.endswith("report.html") for url in seen.requests)
    assert len(seen.requests) == 1
    assert seen.text("#title") == "A study"
    assert f"{table.num_rows:,}" in seen.text("#facts")
    assert seen.page.locator("#headline p").count() == 4  # finding, cell, support, common cells
    assert seen.page.locator("#maps canvas").count() == 5  # the mean and four environments
    assert seen.page.locator("#table tbody tr").count() == 3


def test_hovering_shows_the_cell_and_marks_it_in_every_map(visit, table):
    seen = visit(table)
    item = chosen(seen, table)
    i, j = 6, 8
    before = [seen.pixels(k) for k in range(5)]
    seen.page.locator("#maps canvas").first.hover(position=seen.over(i, j, item.alphas, item.lams))
    tip = seen.text("#tip")
    runs = item.runs()[i, j]
    assert item.label in tip
    assert f"α = {item.alphas[i]:g}, λ = {item.lams[j]:g}" in tip
    assert f"mean {cell_scores(runs[None])[0]:.3f}" in tip
    assert "16 of 16 runs" in tip
    assert seeds_in_words(runs) in tip
    assert all(seen.pixels(k) != before[k] for k in range(5))
    seen.page.mouse.move(5, 5)
    assert not seen.page.locator("#tip").is_visible()
    assert [seen.pixels(k) for k in range(5)] == before
    assert seen.errors == []


def test_one_environments_map_speaks_of_that_environment(visit, table):
    seen = visit(table)
    item = chosen(seen, table)
    i, j, e = 7, 3, 2
    canvas = seen.page.locator("#maps canvas").nth(1 + e)
    canvas.hover(position=seen.over(i, j, item.alphas, item.lams, 1 + e))
    expected = environment_scores(item.runs()[i, j])[e]
    assert f"mean {expected:.3f}" in seen.text("#tip")
    assert "Catch" in seen.text("#tip")


def test_clicking_shows_the_runs_of_the_cell(visit, table):
    seen = visit(table)
    item = chosen(seen, table)
    i, j = 6, 5
    seen.page.locator("#maps canvas").first.click(position=seen.over(i, j, item.alphas, item.lams))
    seen.page.locator("#detail summary").first.click()
    shown = (
        seen.page.locator("#detail tbody")
        .first.locator("tr")
        .evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.innerText))")
    )
    assert len(shown) == 16
    for k, row in enumerate(shown):
        e, n = divmod(k, 4)
        assert row[0] == item.environments[e].label
        assert int(row[1]) == n
        assert float(row[2]) == pytest.approx(item.runs("stochastic")[i, j, e, n], abs=6e-4)
        assert float(row[3]) == pytest.approx(item.runs("greedy")[i, j, e, n], abs=6e-4)
    assert seen.page.locator("#detail svg circle").count() == 16
    with seen.page.expect_download() as caught:
        seen.page.locator("#detail-csv").click()
    lines = caught.value.path().read_text().splitlines()
    assert len(lines) == 17
    seen.page.locator("#detail-close").click()
    assert seen.page.locator("#detail .panel").count() == 0
    assert seen.errors == []


def test_the_slider_recolours_and_recounts(visit, table):
    seen, threshold = visit(table), 0.85
    before = seen.pixels()
    seen.threshold(threshold)
    assert seen.pixels() != before
    at_rbst, at_freq = column(seen, "rbst"), column(seen, "freq")
    by_label = {row[1]: row for row in rows_of(seen)}
    for item in landscapes(table):
        d = cell_scores(item.runs())[item.cells()]
        row = by_label[item.label]
        assert float(row[at_rbst]) == pytest.approx(rbst(d, threshold), abs=6e-5)
        expected = frequency(d, np.array([threshold]))[0]
        assert float(row[at_freq]) == pytest.approx(expected, abs=6e-4)
    assert f"at threshold {threshold:.2f}" in seen.text("#live")
    assert seen.errors == []


def test_a_score_at_the_threshold_counts_as_in_the_analysis(visit, synthetic):
    grid = np.array([0.1, 0.2, 0.3])
    table = synthetic.block({}, "DeepSea", grid, grid, 3, np.random.default_rng(0))
    level = np.where(table["alpha"].to_numpy() > 0.15, 0.9, 0.89)
    at = table.column_names.index("returns")
    table = table.set_column(at, "returns", pa.array([[x] * 10 for x in level]))
    seen = visit(table)
    d = cell_scores(landscapes(table)[0].runs())
    expected = frequency(d, np.array([0.9]))[0]
    assert expected == pytest.approx(2 / 3)
    assert float(rows_of(seen)[0][column(seen, "freq")]) == pytest.approx(expected, abs=6e-4)
    assert seen.errors == []


#: What the page makes of runs [cell][environment][seed], null where there is none.
ON_THE_PAGE = """
  const [A, L, all, cells, statistic, levels] = given;
  const runs = (k) => all[k].map((g) => g.filter((x) => x !== null));
  const grid = gridScores(runs, A, L, cells, statistic);
  const of = (kind) => levels.map((T) => estimate(kind, grid, T));
  const whole = (k) => fewest(runs(k)) > 0;
  return {
    rbst: of("rbst"),
    freq: of("freq"),
    range: all.map((_, k) => (whole(k) ? cellInterval(runs(k), statistic) : null)),
    words: all.map((_, k) => (whole(k) ? seedsInWords(runs(k), statistic) : "")),
  };
"""


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
@pytest.mark.parametrize("seeds", [1, 2, 3, 5, 12])
def test_page_and_analysis_give_the_same_numbers_for_the_same_runs(
    browser, suite, seeds, statistic
):
    formulas = resources.files("mirrorax.report") / "page" / "stats.js"
    program = f"(given) => {{ {formulas.read_text(encoding='utf-8')} {ON_THE_PAGE} }}"
    page = browser.new_page()
    levels = [0.5, 0.9, 0.95]
    rng = np.random.default_rng(seeds)
    makes = (suite.smooth_letter, suite.scattered, suite.rough)
    for make, scale in zip((*makes, suite.rough), (1, 1, 1, 1.1), strict=True):  # the last above 1
        drawn = scale * make(7, rng).draw(seeds, rng)
        runs = drawn.astype(np.float32).astype(np.float64)
        runs[rng.random(runs.shape) < 0.03] = np.nan
        cells = rng.random((7, 7)) < 0.9
        listed = [
            [[None if np.isnan(x) else x for x in group] for group in cell]
            for cell in runs.reshape(49, 4, seeds).tolist()
        ]
        given = [7, 7, listed, cells.ravel().astype(int).tolist(), statistic, levels]
        shown = page.evaluate(program, given)
        for name, function in (("rbst", robustness), ("freq", frequency_band)):
            expected = function(runs, levels, cells=cells, statistic=statistic)
            for got, estimate in zip(shown[name], expected, strict=True):
                assert got["value"] == pytest.approx(estimate.value, abs=1e-9)
                assert got["why"] == estimate.why
                assert got["noLimit"] == estimate.no_limit
                interval, limit = estimate.interval(), estimate.limit
                if interval is None:
                    assert np.isnan(got["low"])
                    continue
                ends = [interval.low, interval.high]
                assert [got["low"], got["high"]] == pytest.approx(ends, abs=1e-9)
                if limit is None:
                    assert got["limit"] is None
                else:
                    ends = {"low": limit.low, "high": limit.high}
                    assert got["limit"] == pytest.approx(ends, abs=1e-9)
        if statistic == "mean":
            low, high = mean_intervals(runs)
            for k, (ends, words) in enumerate(zip(shown["range"], shown["words"], strict=True)):
                i, j = divmod(k, 7)
                if ends is None:
                    assert np.isnan(low[i, j])
                else:
                    expected = {"low": low[i, j], "high": high[i, j]}
                    assert ends == pytest.approx(expected, abs=1e-7)
                if words:
                    assert words.removeprefix("95% interval ") == seeds_in_words(runs[i, j])
    page.close()


def test_the_page_has_every_column_of_the_robustness_table(visit, table, monkeypatch):
    extra = robustness_table.Column("profile", "new", "new", lambda row, k: row.cells + k, ".1f")
    monkeypatch.setattr(robustness_table, "COLUMNS", (*robustness_table.COLUMNS, extra))
    seen = visit(table)
    summary = summarise(table, thresholds=[0.9], reference=reference())
    shown = {row[1]: row for row in rows_of(seen)}
    headed = [c for c in robustness_table.COLUMNS if c.heading]
    assert len(seen.page.locator("#table th").all()) == 1 + len(headed)
    for row in summary.rows:
        for c in headed:
            ours, theirs = shown[row.label][column(seen, c.key)], c.shown(row, 0)
            if c.key == "best.alpha":  # 5e-5 and 5e-05
                ours, theirs = numbers(ours), numbers(theirs)
            assert ours == theirs, c.key
    seen.threshold(0.8)
    assert {row[column(seen, "new")] for row in rows_of(seen)} == {"-"}
    assert "choices the page starts with, threshold 0.90: tuned" in seen.text("#table-notes")
    with seen.page.expect_download() as caught:
        seen.page.locator('.downloads[data-figure="table"] button').click()
    (head, *_) = csv.reader(io.StringIO(caught.value.path().read_text()))
    (wanted, *_) = csv.reader(io.StringIO(robustness_table.render(summary, "csv")))
    assert [name.replace("_0.9", "") for name in wanted[:-1]] == [  # but for the notes
        name for name in head if name not in ("environment", "evaluation", "statistic", "threshold")
    ]


def test_other_choices_change_the_numbers_as_they_should(visit, table):
    seen = visit(table)
    item = next(x for x in landscapes(table) if x.label == "(entropy, kl)")
    cells = item.cells()

    def shown() -> float:
        row = next(row for row in rows_of(seen) if row[1] == item.label)
        return float(row[column(seen, "rbst")])

    seen.threshold(0.7)
    seen.page.select_option("#evaluation", "greedy")
    assert shown() == pytest.approx(rbst(cell_scores(item.runs("greedy"))[cells], 0.7), abs=6e-5)
    seen.page.select_option("#statistic", "iqm")
    d = cell_scores(item.runs("greedy"), "iqm")
    assert shown() == pytest.approx(rbst(d[cells], 0.7), abs=6e-5)
    seen.page.select_option("#cells", "all")
    assert shown() == pytest.approx(rbst(d, 0.7), abs=6e-5)
    seen.page.select_option("#statistic", "mean")
    seen.page.select_option("#environment", label="DeepSea")
    d = environment_scores(item.runs("greedy"))[..., 3]
    assert shown() == pytest.approx(rbst(d, 0.7), abs=6e-5)
    seen.page.select_option("#layout", "environment")
    assert seen.page.locator("#maps canvas").count() == 3
    assert seen.errors == []


def test_the_table_sorts_by_every_column_both_ways(visit, table):
    seen = visit(table)
    for key in (
        "label",
        "best.score",
        "rbst",
        "rbst_interval",
        "cells",
        "reference",
        "tuning.tuned",
    ):
        at = column(seen, key)
        for _ in range(2):
            seen.page.locator(f'#table button[data-key="{key}"]').click()
            way = seen.page.locator("#table th").nth(at).get_attribute("aria-sort")
            values = [row[at] for row in rows_of(seen)]
            if key != "label":
                values = [numbers(v)[0] for v in values]
            assert values == sorted(values, reverse=way == "descending")
    seen.page.locator('#table button[data-key="best.score"]').click()
    focused = seen.page.evaluate("document.activeElement.dataset.key")
    assert focused == "best.score"  # the keyboard does not lose its place


def test_a_references_numbers_stand_beside_ours_only_where_they_belong(visit, table):
    seen = visit(table)
    at, gap, ours = column(seen, "reference"), column(seen, "difference"), column(seen, "rbst")
    row = next(row for row in rows_of(seen) if row[1] == "(entropy, kl)")
    assert row[0] == "C"
    assert row[at] == "0.0747"
    assert numbers(row[gap])[0] == pytest.approx(float(row[ours]) - 0.0747, abs=2e-4)
    notes = seen.text("#table-notes")
    assert "not like for like" in notes  # another number of cells
    assert "Other settings than the reference's: steps 1,000,000, not 16,000,000" in notes
    seen.threshold(0.8)
    assert all(row[at] == "" for row in rows_of(seen))
    seen.threshold(0.95)
    row = next(row for row in rows_of(seen) if row[1] == "(entropy, kl)")
    assert row[at] == "0.0327"
    seen.page.select_option("#evaluation", "greedy")
    assert all(row[at] == "" for row in rows_of(seen))


def test_without_a_reference_nothing_stands_beside_ours(visit, table):
    seen = visit(table, beside=False)
    keys = seen.page.eval_on_selector_all("#table th button", "all => all.map(b => b.dataset.key)")
    assert "rbst" in keys
    assert not {"reference_label", "reference", "difference"} & set(keys)
    assert "reference" not in seen.text("#table-notes")
    assert seen.errors == []


def test_two_pairs_are_compared(visit, table):
    seen = visit(table)
    seen.page.select_option("#first", label="A  (entropy, bregman(max))")
    seen.page.select_option("#second", label="H  (max, kl)")
    seen.threshold(0.8)
    items = {item.label: item for item in landscapes(table)}
    a, b = items["(entropy, bregman(max))"], items["(max, kl)"]
    expected = [rbst(cell_scores(x.runs())[x.cells()], 0.8) for x in (a, b)]
    text = seen.text("#verdict")
    found = numbers(text)
    assert found[0] == 0.8
    assert found[1] == 132
    assert found[2:4] == pytest.approx(expected, abs=6e-5)
    assert found[4] == pytest.approx(expected[0] - expected[1], abs=6e-5)
    low, high = found[6], found[7]
    if low <= 0 <= high:
        assert "do not support a difference" in text
    else:
        assert "The data support" in text
    assert seen.page.locator("#compare-maps canvas").count() == 3
    seen.page.locator("#matrix summary").click()
    signs = seen.page.locator("#matrix tbody td").all_inner_texts()
    assert len(signs) == 9
    seen.page.select_option("#second", label="A  (entropy, bregman(max))")
    assert "do not support a difference" in seen.text("#verdict")
    assert seen.errors == []


@pytest.mark.parametrize("name", ["landscapes", "frequency", "comparison"])
def test_figures_and_their_data_can_be_downloaded(visit, table, name):
    seen = visit(table)
    found = {}
    for kind in ("svg", "png", "csv"):
        with seen.page.expect_download() as caught:
            seen.page.locator(
                f'.downloads[data-figure="{name}"] button[data-kind="{kind}"]'
            ).click()
        file = caught.value.suggested_filename
        assert file.startswith(f"{name}_")
        assert file.endswith(f"_threshold-0.90.{kind}")
        found[kind] = caught.value.path().read_bytes()
    assert found["png"].startswith(b"\x89PNG")
    assert len(found["png"]) > 5000
    svg = found["svg"].decode()
    assert svg.startswith("<svg")
    assert svg.rstrip().endswith("</svg>")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert any("threshold 0.90" in text for text in texts)
    if name != "frequency":  # the pair, the axes and the scale
        best = landscapes(table)
        assert any(item.label in texts[0] for item in best)
        assert {"λ (drift)", "α (MDP)", "score"} <= set(texts)
    else:
        assert {item.label for item in landscapes(table)} <= {t.split("  ")[-1] for t in texts}
    rows = list(csv.DictReader(io.StringIO(found["csv"].decode())))
    if name == "landscapes":
        assert len(rows) == 5 * 12 * 13
        item = chosen(seen, table)
        d = cell_scores(item.runs())
        for row in rows[: 12 * 13]:
            i = list(item.alphas).index(float(row["alpha_or_w"]))
            j = list(item.lams).index(float(row["lam"]))
            assert float(row["score"]) == pytest.approx(d[i, j], abs=1e-6)
            assert row["good"] == str(int(d[i, j] >= 0.9))
    else:
        assert len(rows) > 100
    assert seen.errors == []


def test_a_long_title_fits_its_picture(visit, synthetic, tmp_path):
    wide = "to(uniform, bregman(tsallis(0.333333333)))"
    pair, grid = {"potential": wide, "drift": f"bregman({wide})"}, np.array([0.01, 0.1])
    rng = np.random.default_rng(1)
    seen = visit(synthetic.block(pair, "Catch", grid, grid, 2, rng))
    with seen.page.expect_download() as caught:
        seen.page.locator('.downloads[data-figure="landscapes"] button[data-kind="svg"]').click()
    picture = tmp_path / "long.svg"
    caught.value.save_as(picture)
    seen.page.goto(picture.as_uri())
    end = "(t => t.getBBox().x + t.getBBox().width)(document.querySelector('text'))"
    assert seen.page.evaluate(f"{end} < document.documentElement.width.baseVal.value")


def test_the_table_can_be_downloaded(visit, table):
    seen = visit(table)
    with seen.page.expect_download() as caught:
        seen.page.locator('.downloads[data-figure="table"] button').click()
    rows = list(csv.DictReader(io.StringIO(caught.value.path().read_text())))
    assert len(rows) == 3
    for item in landscapes(table):
        row = next(row for row in rows if row["label"] == item.label)
        d = cell_scores(item.runs())[item.cells()]
        assert float(row["rbst"]) == pytest.approx(rbst(d, 0.9), abs=1e-6)


def luminance(text: str) -> float:
    """Relative luminance of a colour of the style sheet, as WCAG defines it."""
    parts = [int(x) / 255 for x in re.findall(r"\d+", text)[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(seen, selector: str) -> float:
    ink = seen.page.locator(selector).first.evaluate("e => getComputedStyle(e).color")
    back = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark, light = sorted(map(luminance, (ink, back)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_modes_are_readable(visit, table, scheme):
    seen = visit(table, color_scheme=scheme)
    assert seen.page.evaluate("document.documentElement.dataset.theme") == scheme
    for selector in ("#headline p", ".hint", "#table td", "#table td button", "#live"):
        assert contrast(seen, selector) >= 4.5, selector
    before = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    picture = seen.pixels()
    seen.page.locator("#theme").click()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert seen.pixels() != picture
    seen.page.locator("#theme").click()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == before
    assert seen.errors == []


def test_a_cell_below_the_threshold_keeps_its_colour(visit, table):
    seen = visit(table)
    item = chosen(seen, table)
    scores = cell_scores(item.runs())
    i, j = np.unravel_index(int(np.abs(scores[1:, 1:] - 0.5).argmin()), scores[1:, 1:].shape)
    at = seen.over(i + 1, j + 1, item.alphas, item.lams)
    colour = "(c, p) => [...c.getContext('2d').getImageData(p.x + 5, p.y + 5, 1, 1).data]"
    canvas = seen.page.locator("#maps canvas").first
    seen.threshold(0.05)
    good = canvas.evaluate(colour, at)
    seen.threshold(0.95)
    assert canvas.evaluate(colour, at) == good


def test_the_headline_is_that_of_the_analysis(visit, table):
    seen = visit(table)
    lines = seen.page.locator("#headline p").all_inner_texts()
    start = telling_threshold(landscapes(table))
    assert lines == headline(summarise(table, thresholds=[start]))
    assert seen.text("#threshold-value") == f"{start:.2f}"
    best = summarise(table, thresholds=[start]).rows[0].label
    assert seen.page.locator("#pair option:checked").inner_text().endswith(best)
    assert rows_of(seen)[0][1] == best


def test_a_click_gives_the_command_that_trains_the_cell(visit, table):
    seen = visit(table)
    seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    item = chosen(seen, table)
    i, j = 6, 5
    seen.page.locator("#maps canvas").first.click(position=seen.over(i, j, item.alphas, item.lams))
    button = seen.page.locator("#detail .copy").nth(2)
    button.click()
    seen.until("[...document.querySelectorAll('.copy')].some((b) => b.textContent === 'Copied')")
    words = shlex.split(seen.page.evaluate("navigator.clipboard.readText()"))
    assert words[:2] == ["mirrorax", "train"]
    flags = dict(zip(words[2::2], words[3::2], strict=True))
    settings = dict(item.settings)
    assert flags["--env"] == "Catch"
    assert (flags["--potential"], flags["--drift"]) == (settings["potential"], settings["drift"])
    assert float(flags["--alpha"]) == item.alphas[i]
    assert float(flags["--lam"]) == item.lams[j]
    assert flags["--seeds"] == "0,1,2,3"
    parser_of("train").parse_args(words[2:])  # or it raises
    assert seen.errors == []


def test_pairs_are_filtered_and_curves_hidden_one_by_one(visit, table):
    seen = visit(table)
    lines = "#frequency polyline"
    before = seen.page.locator(lines).count()
    seen.page.locator("#curve-legend button").nth(1).click()
    assert seen.page.locator("#curve-legend button.off").count() == 1
    assert seen.page.locator(lines).count() == before - 1
    seen.page.locator("#curve-legend button").nth(1).click()
    assert seen.page.locator(lines).count() == before
    seen.page.locator("#filter").fill("MAX, ")
    assert [row[1] for row in rows_of(seen)] == ["(max, kl)"]
    assert seen.page.locator("#curve-legend button").count() == 1
    assert "that all 3 have" in seen.text("#table-notes")  # ranks stay those of all
    assert seen.errors == []


def test_maps_can_be_enlarged_until_values_fit(visit, table):
    seen = visit(table)
    canvas = seen.page.locator("#maps canvas").first
    small = canvas.bounding_box()["width"]
    seen.page.locator("#zoom").fill("2")
    assert canvas.bounding_box()["width"] > 1.8 * (small - 60)
    assert seen.errors == []


def test_a_narrow_window_needs_no_sideways_scrolling(visit, table):
    seen = visit(table)
    seen.page.set_viewport_size({"width": 400, "height": 800})
    seen.page.wait_for_timeout(200)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_keyboard_is_enough(visit, table):
    seen = visit(table)
    item = chosen(seen, table)
    reached = []
    for _ in range(40):
        seen.page.keyboard.press("Tab")
        reached.append(
            seen.page.evaluate("document.activeElement.id || document.activeElement.tagName")
        )
    for wanted in ("theme", "evaluation", "threshold", "pair", "CANVAS"):
        assert wanted in reached
    seen.page.locator("#threshold").focus()
    seen.page.keyboard.press("ArrowLeft")
    seen.until("document.getElementById('threshold-value').textContent === '0.89'")
    seen.page.locator("#maps canvas").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        seen.page.keyboard.press(key)
    assert numbers(seen.text("#tip").split("\n")[1]) == [item.alphas[1], item.lams[1]]
    seen.page.keyboard.press("Enter")
    assert "Runs of" in seen.text("#detail h3 >> nth=0")
    seen.page.keyboard.press("Escape")
    assert not seen.page.locator("#tip").is_visible()


def test_choices_survive_a_reload(visit, table):
    seen = visit(table)
    seen.threshold(0.77)
    seen.page.select_option("#evaluation", "greedy")
    seen.until("location.hash.includes('greedy') && location.hash.includes('0.77')")
    seen.page.reload()
    seen.until("document.documentElement.dataset.rendered >= 1")
    assert seen.page.locator("#evaluation").input_value() == "greedy"
    assert seen.text("#threshold-value") == "0.77"


def test_a_study_named_script_is_text(visit, table):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    hosts = pa.array([evil] * table.num_rows)
    bad = table.set_column(table.column_names.index("host"), "host", hosts)
    drift = pa.array([f"m:{evil}" if d == "kl" else d for d in bad["drift"].to_pylist()])
    bad = bad.set_column(bad.column_names.index("drift"), "drift", drift)
    seen = visit(bad, title=evil)
    assert seen.text("#title") == evil
    assert seen.page.title() == evil
    seen.page.locator("#machine summary").click()
    assert evil in seen.text("#machine")
    assert any(evil in row[1] for row in rows_of(seen))
    assert seen.page.locator("img").count() == 0
    assert seen.errors == []
    assert len(seen.requests) == 1


def test_a_single_seed_has_no_interval(visit, synthetic):
    grid = np.array([0.0, 0.01, 0.1])
    table = synthetic.study([{}], np.random.default_rng(1), alphas=grid, lams=grid, seeds=1)
    seen = visit(table)
    assert rows_of(seen)[0][column(seen, "rbst_interval")] == "no interval"
    assert "one seed per cell: no interval" in seen.text("#table-notes")
    item = chosen(seen, table)
    seen.page.locator("#maps canvas").first.hover(position=seen.over(1, 1, item.alphas, item.lams))
    assert "one seed: no interval" in seen.text("#tip")
    assert seen.page.locator("#comparison").is_hidden()  # one pair
    assert seen.errors == []


def test_holes_failures_and_divergence_are_shown(visit, table):
    alpha, lam = table["alpha"].to_numpy(), table["lam"].to_numpy()
    item = landscapes(table)[0]
    hole = (alpha == item.alphas[2]) & (lam == item.lams[2])
    status = np.where((alpha == item.alphas[3]) & (lam == item.lams[3]), "failed", "done")
    why = np.where(status == "failed", "out of memory", None)
    diverged = (alpha == item.alphas[4]) & (lam == item.lams[4])
    odd = table
    for name, values in (
        ("status", pa.array(status)),
        ("failure", pa.array(why.tolist(), pa.string())),
        ("diverged", pa.array(diverged)),
    ):
        odd = odd.set_column(odd.column_names.index(name), name, values)
    seen = visit(odd.filter(pa.array(~hole)))
    canvas = seen.page.locator("#maps canvas").first
    canvas.hover(position=seen.over(2, 2, item.alphas, item.lams))
    assert "no runs here" in seen.text("#tip")
    canvas.hover(position=seen.over(3, 3, item.alphas, item.lams))
    assert "no runs here" in seen.text("#tip")
    canvas.hover(position=seen.over(4, 4, item.alphas, item.lams))
    assert "mean 0.000" in seen.text("#tip")
    canvas.click(position=seen.over(4, 4, item.alphas, item.lams))
    seen.page.locator("#detail summary").first.click()
    assert "diverged" in seen.text("#detail tbody >> nth=0")
    assert "48" in seen.text("#facts")
    seen.page.locator("#failures summary").click()
    assert "out of memory" in seen.text("#failures")
    assert "missing or failed" in seen.text("#table-notes")
    assert rows_of(seen)[0][column(seen, "cells")] == "130/132"
    assert seen.errors == []


def test_learned_temperatures_have_their_own_axis(visit, synthetic):
    grid = np.array([0.0, 0.01, 0.1])
    table = synthetic.study(
        [{}, {"alpha_schedule": "learned"}],
        np.random.default_rng(1),
        alphas=grid,
        lams=grid,
        seeds=2,
    )
    seen = visit(table)
    assert "their grids have no cell in common" in seen.text("#verdict")
    seen.page.select_option("#pair", label="(entropy, kl) alpha learned, lam constant")
    item = landscapes(table)[1]
    seen.page.locator("#maps canvas").first.hover(position=seen.over(1, 1, item.alphas, item.lams))
    assert "w = 0.01" in seen.text("#tip")
    assert seen.errors == []


def test_different_grids_are_told_and_compared_where_they_meet(visit, synthetic):
    rng, grid = np.random.default_rng(2), np.array([0.0, 0.01, 0.1, 0.2])
    a = synthetic.block({}, "Catch", grid, grid, 2, rng)
    b = synthetic.block({"drift": "forward_kl"}, "Catch", grid[:3], grid[1:], 2, rng)
    seen = visit(pa.concat_tables([a, b]))
    notes = seen.text("#table-notes")
    assert "over the 6 cells that all 2 have" in notes
    assert "left out: (entropy, kl) 3" in notes
    assert {row[column(seen, "cells")] for row in rows_of(seen)} == {"6/6"}
    assert "over 6 common cells" in seen.text("#verdict")
    assert seen.errors == []


def test_nothing_in_common_still_shows_each(visit, synthetic):
    rng, grid = np.random.default_rng(2), np.array([0.0, 0.01, 0.1])
    a = synthetic.block({}, "Catch", grid, grid, 2, rng)
    b = synthetic.block({"drift": "forward_kl"}, "DeepSea", grid, grid, 2, rng)
    seen = visit(pa.concat_tables([a, b]))
    assert seen.page.locator("#environment option").all_inner_texts() == ["Catch", "DeepSea"]
    assert seen.page.locator("#maps canvas").count() == 1
    assert "no runs on this environment" in seen.text("#verdict")
    assert seen.errors == []


def test_settings_without_a_common_cell_are_chosen(visit, synthetic):
    rng, blocks = np.random.default_rng(2), []
    for values, steps, drifts in (([0.01, 0.1], 1_000, ["kl"]), ([1, 10], 2_000, ["kl", "zero"])):
        for drift in drifts:
            settings, grid = {"drift": drift, "steps": steps}, np.array(values, float)
            blocks.append(synthetic.block(settings, "Catch", grid, grid, 2, rng))
    seen = visit(pa.concat_tables(blocks))
    names = seen.page.locator("#group option").all_inner_texts()
    assert [name.split(":")[0] for name in names] == ["2 pairs", "1 pair"]
    assert seen.text("#headline").startswith("Most robust of 2 pairs: ")
    assert seen.page.locator("#table tbody tr").count() == 2
    with seen.page.expect_event("load"):  # the address changes first, then the page loads again
        seen.page.select_option("#group", "1")
    seen.until("document.documentElement.dataset.rendered >= 1")
    assert seen.page.locator("#table tbody tr").count() == 1
    assert seen.page.locator("#group").input_value() == "1"
    assert seen.errors == []


def test_learning_curves_are_shown_where_they_were_kept(visit, table):
    rng = np.random.default_rng(0)
    returns = rng.random((table.num_rows, 5)).tolist()
    seen = visit(with_curves(table, returns, [1.0, 2.0, 3.0, 4.0, 5.0]))
    item = chosen(seen, table)
    seen.page.locator("#maps canvas").first.click(position=seen.over(5, 5, item.alphas, item.lams))
    assert seen.page.locator("#curves svg polyline").count() >= 16
    assert seen.errors == []
