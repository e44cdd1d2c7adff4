"""`mirrorax robustness`: how robust each pair of regularisers is to its temperatures."""

from __future__ import annotations

import argparse
import sys

from mirrorax.cli import reference

_EXAMPLES = """\
examples:
  mirrorax robustness --store runs
  mirrorax robustness --store runs --thresholds 0.9 0.95 --format markdown
  mirrorax robustness --store runs --reference last_year.toml
  mirrorax robustness --store runs --environments CartPole --statistic iqm --cells all
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--store", required=True, metavar="DIR", help="the store of a sweep")
    parser.add_argument(
        "--thresholds",
        nargs="+",
        type=float,
        default=[0.9, 0.95],
        metavar="T",
        help="levels T of freq(T) and Rbst_T, in [0, 1) (default: 0.9 0.95)",
    )
    parser.add_argument(
        "--cells",
        choices=["positive", "all"],
        default="positive",
        help="count the cells with positive temperatures (default) or all",
    )
    parser.add_argument(
        "--format", choices=["text", "markdown", "latex", "csv", "json"], default="text"
    )
    parser.add_argument(
        "--environments",
        nargs="+",
        metavar="NAME",
        help="average over these (default: those that every algorithm of the store has)",
    )
    parser.add_argument("--statistic", choices=["mean", "median", "iqm"], default="mean")
    parser.add_argument("--evaluation", choices=["stochastic", "greedy"], default="stochastic")
    parser.add_argument(
        "--diverged",
        choices=["lowest", "exclude"],
        default="lowest",
        help="diverged runs count with the lowest return (default) or not at all",
    )
    reference.add_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Print the robustness table of a store."""
    from pathlib import Path

    from mirrorax.analysis.progress import unfinished
    from mirrorax.analysis.summary import summarise
    from mirrorax.cli.stored import read_runs
    from mirrorax.figures.robustness_table import render
    from mirrorax.store import studies

    beside = reference.load(args)
    table = read_runs(args.store)
    known = studies.latest(Path(args.store))
    summary = summarise(
        table,
        thresholds=args.thresholds,
        cells=args.cells,
        environments=args.environments,
        statistic=args.statistic,
        evaluation=args.evaluation,
        diverged=args.diverged,
        notes=unfinished(table, known.run_ids if known else None),
        reference=beside,
    )
    sys.stdout.write(render(summary, args.format))
    return 0
