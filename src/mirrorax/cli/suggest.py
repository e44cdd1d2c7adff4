"""`mirrorax suggest`: regularisers and temperatures for a task, from results."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import TYPE_CHECKING

from mirrorax.cli import plugin
from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.tuning.suggestion import Suggestion
    from mirrorax.tuning.validation import Validation

_EXAMPLES = """examples:
  mirrorax suggest --env CartPole
  mirrorax suggest --env CartPole --max-return 50          its rewards divided by ten
  mirrorax suggest --plugin mine --env Maze --drift kl     a task nobody has measured
  mirrorax suggest --env Catch --results my_store          learn from your own results
  mirrorax suggest --validate                              how far this can be trusted

The environment may be one that mirrorax does not know: then --max-return says how large its returns
are. 'mirrorax tune' searches the ranges that are suggested.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add("--env", "--environment", dest="env", help="the environment, known or not")
    add("--max-return", type=float, metavar="R", help="the return that counts as 1")
    add("--reward-scale", type=float, default=1.0, metavar="C", help="rewards times C (1)")
    add("--potential", metavar="H", help="only this potential")
    add("--drift", metavar="D", help="only this drift")
    add("--results", metavar="PATH", help="a store or exports to learn from (the shipped table)")
    add(
        "--validate",
        action="store_true",
        help="leave each environment out in turn and predict it from the others",
    )
    add("--threshold", type=float, help="with --validate: a good score (0.9)")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    plugin.add_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Suggest, or validate."""
    from mirrorax.tuning.evidence import of_results
    from mirrorax.tuning.suggestion import suggest
    from mirrorax.tuning.validation import THRESHOLD, validate

    plugin.load(args)
    if args.validate:
        if args.env is not None:
            raise UserError("validate: it leaves out every environment; leave --env out too")
        given = (args.potential, args.drift, args.max_return)
        for name, value in zip(("potential", "drift", "max-return"), given, strict=True):
            if value is not None:
                raise UserError(
                    f"--{name}: {value} says nothing to --validate, which takes all pairs"
                )
        if args.reward_scale != 1:
            raise UserError("--reward-scale: it says nothing to --validate")
        threshold = THRESHOLD if args.threshold is None else args.threshold
        found = validate(of_results(args.results), threshold)
        if args.json:
            print(json.dumps(found.to_dict()))
        else:
            _show_validation(found)
        return 0
    if args.threshold is not None:
        raise UserError(f"--threshold: {args.threshold:g} is for --validate alone")
    if args.env is None:
        raise UserError("env: missing; for example --env Catch")
    made = suggest(
        args.env,
        args.max_return,
        reward_scale=args.reward_scale,
        potential=args.potential,
        drift=args.drift,
        results=args.results,
    )
    if args.json:
        print(json.dumps(made.to_dict()))
    else:
        _show(made, "".join(f" --plugin {name}" for name in args.plugin))
    return 0


def _show(made: Suggestion, plugins: str) -> None:
    print(f"for {made.environment}")
    print(f"  potential  {made.potential}")
    print(f"  drift      {made.drift}")
    for name, value, (low, high) in (
        ("alpha", made.alpha, made.alpha_range),
        ("lam", made.lam, made.lam_range),
    ):
        print(f"  {name:<9}  {value:<8g} search {low:g} to {high:g}")
    print()
    print("why")
    for reason in made.reasons:
        print(textwrap.fill(reason, 96, initial_indent="  - ", subsequent_indent="    "))
    print("how sure")
    print(textwrap.fill(made.sure, 96, initial_indent="  ", subsequent_indent="  "))
    print()
    print(f"try   {made.command}{plugins}")
    print(f"      {made.search}{plugins}")


def _show_validation(found: Validation) -> None:
    print(f"left out, and predicted from the others (good: at least {found.threshold:g})")
    lines = [("pair", "environment", "alpha", "lam", "score", "best", "hit", "random", "single")]
    for row in found.rows:
        lines.append(
            (
                f"({row.potential}, {row.drift})",
                row.environment,
                f"{row.alpha:g}",
                f"{row.lam:g}",
                f"{row.score:.3f}",
                f"{row.best:.3f}",
                "yes" if row.success else "no",
                f"{row.random:.1%}",
                "yes" if row.fixed else "no",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, strict=True)
        text = [c.ljust(w) if k < 2 else c.rjust(w) for k, (c, w) in enumerate(cells)]
        print("  " + "  ".join(text).rstrip())
    print()
    count = len(found.rows)
    print(f"suggested cell, without a look at the environment: {found.suggested:.1%} of {count}")
    print(f"random cell:                                       {found.random:.1%}")
    print(f"best single cell, which has seen every one:        {found.fixed:.1%}")
    names = len({row.environment for row in found.rows})
    print(f"{names} environments are few to leave out: the rates say which way, not how far.")
