"""`mirrorax paper`: the paper's studies, listed, run and compared with what it printed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli.stored import damage_named, place_of
from mirrorax.errors import Failure, UserError
from mirrorax.formatting import columns, counted

if TYPE_CHECKING:
    from mirrorax.analysis.reference import Reference
    from mirrorax.paper.readings import Reading
    from mirrorax.paper.runs import ReadingRuns

EXAMPLES = """\
examples:
  mirrorax paper list
  mirrorax paper run --scale demo --store demo/store
  mirrorax paper run baseline pairs --scale reduced --grid 8 --seeds 2 --store runs
  mirrorax paper run --scale full --store runs --engine ray        all 504,600 runs
  mirrorax paper run fingerprint --reading each64_all --store runs  which reading fits
  mirrorax paper report results/paper         all readings found, side by side
"""


ACTIONS = {
    "list": (
        "List the studies, their figures and numbers of runs.",
        """
--readings          list the readings of what the paper leaves open, with their cost
@json
""",
    ),
    "run": (
        "Run studies of the paper; the same command resumes.",
        """
NAME*               studies of `paper list` (all)
--scale demo|reduced|full   demo: some minutes; reduced: fewer cells and seeds; full: as in the
                    paper ('fingerprint', 'zero', 'best' and 'random' need none)
--grid 6|8|15|29    values of each temperature when reduced: 6 (positive ones), 8, 15 or 29 (8)
--seeds N           number of seeds (reduced: 2, full: 5)
--reading NAME      how the paper is read: a name of `paper list --readings` (that of the first
                    published results)
--store DIR!        the folder of results
@engine
""",
    ),
    "report": (
        "Draw the figures and tables that the runs allow; compare.",
        """
@results
--reading NAME      only this reading (all of them, side by side)
--out DIR=paper_report      the folder to write
--seed N>=0=0       seed of the resampling
""",
    ),
}


def run(args: argparse.Namespace) -> int:
    """Do the action; return the exit code."""
    return {"list": _list, "run": _run, "report": _report}[args.action](args)


def studies() -> list[tuple[str, str]]:
    """Return the studies, each with one line, for `mirrorax list studies`."""
    from mirrorax.paper import catalogue

    return [(entry.name, f"{entry.runs:,} runs: {entry.title}") for entry in catalogue.ENTRIES]


def reference() -> Reference:
    """Return the printed values of Rbst, for `--reference paper`."""
    from mirrorax.paper import table_1

    return table_1.reference()


def _list(args: argparse.Namespace) -> int:
    from mirrorax.paper import catalogue, panels

    if args.readings:
        return _list_readings(args)
    rows: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "title": entry.title,
            "figures": list(panels.figures_of(entry.name)),
            "runs": entry.runs,
        }
        for entry in catalogue.ENTRIES
    ]
    total = sum(entry.runs for entry in catalogue.ENTRIES)
    if args.json:
        figures = [
            {"name": f.name, "title": f.title, "studies": list(f.studies), "runs": f.runs}
            for f in panels.FIGURES
        ]
        print(json.dumps({"studies": rows, "figures": figures, "total": total}, indent=2))
        return 0
    table = [("study", "runs", "what it varies")]
    for row in rows:
        table += [(row["name"], f"{row['runs']:,}", row["title"]), ("", "", _short(row["figures"]))]
    table += [("total", f"{total:,}", ""), *((n, "", t) for n, t in catalogue.EXTRAS.items())]
    print(columns(table, text=True))
    return 0


def _list_readings(args: argparse.Namespace) -> int:
    from mirrorax.envs.suite import SUITE
    from mirrorax.paper.readings import readings, samples
    from mirrorax.sweep.measure import modelled_seconds

    rows: list[dict[str, Any]] = []
    for reading in (*readings().values(), *samples().values()):
        settings = [reading.settings(name) for name in SUITE]
        rows.append(
            {
                "name": reading.name,
                "title": reading.title,
                "settings": dict(reading.fields),
                "updates": settings[0].updates,
                "batches": settings[0].updates * settings[0].batches_per_update,
                "core_seconds": sum(map(modelled_seconds, settings)) / len(SUITE),
            }
        )
    if args.json:
        print(json.dumps({"readings": rows}, indent=2))
        return 0
    table = [("reading", "updates", "batches", "core-s a run", "what it is")]
    for row in rows:
        numbers = (f"{row['updates']:,}", f"{row['batches']:,}", f"{row['core_seconds']:.1f}")
        table.append((row["name"], *numbers, row["title"]))
    print(columns(table, text=True))
    print("core-seconds: the mean of the four environments, by the shipped table of costs")
    return 0


def _short(figures: list[str]) -> str:
    """Write 'Figure 1a', 'Table 1', 'Figure 2' as 'Figures 1a, 2; Table 1'."""
    numbers = [name.removeprefix("Figure ") for name in figures if name.startswith("Figure")]
    text = f"Figure{'s' * (len(numbers) > 1)} {', '.join(numbers)}" if numbers else ""
    tables = [name for name in figures if not name.startswith("Figure")]
    return "; ".join(part for part in (text, *tables) if part)


def _run(args: argparse.Namespace) -> int:
    from mirrorax.cli.sweep import run_study
    from mirrorax.paper import catalogue, readings
    from mirrorax.paper.best_cells import best_cells

    name = args.reading or readings.FIRST
    for flag in ("scale", "grid", "seeds"):
        if args.name in (["best"], ["random"]) and getattr(args, flag) is not None:
            raise UserError(f"--{flag}: {args.name[0]} takes none")
    if args.name == ["best"]:
        runs = _stored(args.store, name)
        if runs is None:
            raise UserError(f"store: no runs of the reading {name}")
        return run_study(best_cells(runs, readings.reading(name)), args)
    if args.name == ["random"]:
        return _run_random(args, readings.reading(name))
    if args.scale is None and not set(args.name) & set(catalogue.EXTRAS):
        raise UserError(f"--scale: one of {', '.join(catalogue.SCALES)} is needed")
    grid = int(args.grid) if args.grid else None
    study = catalogue.make(
        args.name, args.scale or "reduced", grid=grid, seeds=args.seeds, reading=name
    )
    return run_study(study, args)


def _run_random(args: argparse.Namespace, reading: Reading) -> int:
    """Run what random cells need, until each is decided or nothing more can be run."""
    from mirrorax.cli.sweep import run_study
    from mirrorax.paper.random_cells import next_runs

    last, worst = "", 0
    while study := next_runs(_stored(args.store, reading.name), reading):
        if study.text == last:
            raise Failure("random: failed runs leave cells undecided; add --retry-failed")
        last = study.text
        code = run_study(study, args)
        if code > 1 or (code and args.fail_fast):
            return code
        worst = max(worst, code)
    return worst


def _stored(store: str, name: str) -> ReadingRuns | None:
    """Return what a store has of a reading, which is to be continued."""
    from mirrorax._version import ALGORITHM_VERSION
    from mirrorax.paper.collection import collect
    from mirrorax.store.reading import Reader

    with damage_named():
        if not len(Reader(Path(store), ["diverged_at"]).results()):
            return None
        runs = collect(store).runs.get(name)
    version = ALGORITHM_VERSION if runs is None else runs.expected["algorithm_version"]
    if version != ALGORITHM_VERSION:
        raise UserError(
            f"store: most runs of {name} in {store} are of version {version} of the algorithm, new "
            f"ones would be of {ALGORITHM_VERSION}; use another store"
        )
    return runs


def _report(args: argparse.Namespace) -> int:
    from mirrorax.paper.collection import collect
    from mirrorax.paper.matrix import holds
    from mirrorax.paper.report import write

    with damage_named():
        collection = collect(place_of(args))
    report = write(collection, args.out, args.seed, args.reading)
    if len(report.matrix.claims) > 1:
        for claim, row in report.matrix.rows:
            print(f"{claim.title}: {holds(row)}")
    else:
        for claim in report.claims:
            print(f"{claim.title}: {claim.verdict}")
    drawn = report.drawn
    absent = [each.figure.name for each in drawn if not each.files]
    print(
        f"{Path(args.out) / 'index.html'}: {len(drawn) - len(absent)} of {len(drawn)} figures, "
        f"reading {report.reading}"
    )
    if absent:
        print(f"not enough runs for {', '.join(absent)}")
    for why, count in collection.foreign.items():
        print(f"{counted(count, 'run')} with {why} belong to no reading and are in no figure")
    return 0
