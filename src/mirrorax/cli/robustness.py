"""`mirrorax robustness`: how robust each pair of regularisers is to its temperatures."""

from __future__ import annotations

import argparse
import sys

from mirrorax.cli import flags

_EXAMPLES = """\
examples:
  mirrorax robustness runs
  mirrorax robustness runs --thresholds 0.9 0.95 --format markdown
  mirrorax robustness runs --reference last_year.toml
  mirrorax robustness runs --environments CartPole --statistic iqm --cells all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    flags.add_place(parser, "a store, an exported file, or a folder of exported files")
    parser.add_argument(
        "--thresholds",
        nargs="+",
        type=float,
        default=[0.9, 0.95],
        metavar="T",
        help="levels T of freq(T) and Rbst_T, in [0, 1) (0.9 0.95)",
    )
    parser.add_argument(
        "--cells",
        choices=["positive", "all"],
        default="positive",
        help="count the cells with positive temperatures, or all (positive)",
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown", "csv", "json"],
        default="text",
        help="how to write the table (text)",
    )
    parser.add_argument(
        "--environments",
        nargs="+",
        metavar="NAME",
        help="average over these environments (those that every algorithm has)",
    )
    parser.add_argument(
        "--statistic",
        choices=["mean", "median", "iqm"],
        default="mean",
        help="how the seeds of a cell are averaged (mean)",
    )
    parser.add_argument(
        "--evaluation",
        choices=["stochastic", "greedy"],
        default="stochastic",
        help="score the policy as it is, or its greedy choice (stochastic)",
    )
    parser.add_argument(
        "--diverged",
        choices=["lowest", "exclude"],
        default="lowest",
        help="count diverged runs with the lowest return, or not at all (lowest)",
    )
    flags.add_reference(parser)


def run(args: argparse.Namespace) -> int:
    """Print the robustness table."""
    from mirrorax.analysis.summary import summarise, unfinished
    from mirrorax.cli.stored import read_runs, read_study
    from mirrorax.figures.robustness_table import render

    reference = flags.load_reference(args)
    place = flags.place_of(args)
    table = read_runs(place)
    study = read_study(place)
    summary = summarise(
        table,
        thresholds=args.thresholds,
        cells=args.cells,
        environments=args.environments,
        statistic=args.statistic,
        evaluation=args.evaluation,
        diverged=args.diverged,
        notes=unfinished(table, study.run_ids if study else None),
        reference=reference,
    )
    sys.stdout.write(render(summary, args.format))
    return 0
