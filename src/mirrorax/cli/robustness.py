"""`mirrorax robustness`: how robust each pair of regularisers is to its temperatures."""

from __future__ import annotations

import argparse
import sys

from mirrorax.cli.stored import load_reference, place_of, read_runs

EXAMPLES = """\
examples:
  mirrorax robustness runs
  mirrorax robustness runs --thresholds 0.9 0.95 --format markdown
  mirrorax robustness runs --reference last_year.toml
  mirrorax robustness runs --environments CartPole --statistic iqm --cells all
"""


FLAGS = """
@results
--thresholds X+=0.9,0.95    levels T of freq(T) and Rbst_T, in [0, 1)
--cells positive|all=positive   count the cells with positive temperatures, or all
--format text|markdown|csv|json=text   how to write the table
--environments NAME+        average over these environments (those that every algorithm has)
--statistic mean|median|iqm=mean   how the seeds of a cell are averaged
--evaluation stochastic|greedy=stochastic   score the policy as it is, or its greedy choice
--diverged lowest|exclude=lowest   count diverged runs with the lowest return, or not at all
@reference
"""


def run(args: argparse.Namespace) -> int:
    """Print the robustness table."""
    from mirrorax.analysis.groups import largest_group
    from mirrorax.analysis.landscape import landscapes
    from mirrorax.analysis.summary import summarise, unfinished
    from mirrorax.figures.robustness_table import render

    reference = load_reference(args)
    table, study = read_runs(place_of(args))
    # Named environments are those of the algorithms that have them.
    items, notes = (landscapes(table), []) if args.environments else largest_group(table)
    summary = summarise(
        items,
        thresholds=args.thresholds,
        cells=args.cells,
        environments=args.environments,
        statistic=args.statistic,
        evaluation=args.evaluation,
        diverged=args.diverged,
        notes=[*unfinished(table, study.run_ids if study else None), *notes],
        reference=reference,
    )
    sys.stdout.write(render(summary, args.format))
    return 0
