"""`mirrorax suggest`: regularisers and temperatures for a task, from results."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from math import isnan
from typing import TYPE_CHECKING

from mirrorax.errors import UserError
from mirrorax.formatting import columns

if TYPE_CHECKING:
    from mirrorax.tuning.suggestion import Suggestion
    from mirrorax.tuning.validation import Validation

EXAMPLES = """examples:
  mirrorax suggest --env CartPole
  mirrorax suggest --env CartPole --max-return 50          its rewards divided by ten
  mirrorax suggest --plugin mine --env Maze --drift kl     a task without results
  mirrorax suggest --env Catch --results my_store          learn from your own results
  mirrorax suggest --validate                              how far to trust a suggestion

The environment may be unknown to mirrorax: then --max-return says how large its returns are.
'mirrorax tune' searches the suggested ranges.
"""


FLAGS = """
@environment
--max-return X      the return that counts as 1
--reward-scale X=1  factor on all rewards
--potential NAME    suggest for this potential h only
--drift NAME        suggest for this drift D only
--algorithm NAME    off_policy; there are no results of on_policy yet
--results PATH      learn from a store or exports (the shipped runs)
--validate          leave each environment out in turn and predict it from the others
--threshold X       with --validate: a good score (0.9)
@plugin
@json
"""


def run(args: argparse.Namespace) -> int:
    """Suggest, or validate."""
    from mirrorax.tuning.suggestion import suggest

    if args.algorithm not in (None, "off_policy"):
        raise UserError(
            f"--algorithm: {args.algorithm!r} is not allowed: there are results of 'off_policy' "
            "alone; search with: mirrorax tune --algorithm on_policy"
        )
    if args.validate:
        return _validate(args)
    if args.threshold is not None:
        raise UserError(f"threshold: {args.threshold:g} needs --validate")
    if args.env is None:
        raise UserError("env: missing; for example --env Catch")
    suggestion = suggest(
        args.env,
        args.max_return,
        reward_scale=args.reward_scale,
        potential=args.potential,
        drift=args.drift,
        results=args.results,
    )
    if args.json:
        print(json.dumps(suggestion.to_dict()))
    else:
        _show(suggestion, args)
    return 0


def _validate(args: argparse.Namespace) -> int:
    from mirrorax.tuning.evidence import of_results
    from mirrorax.tuning.validation import THRESHOLD, validate

    usual = {"env": None, "potential": None, "drift": None, "max_return": None, "reward_scale": 1}
    for name, value in usual.items():
        if getattr(args, name) != value:
            raise UserError(f"{name}: --validate takes all of the results")
    threshold = THRESHOLD if args.threshold is None else args.threshold
    validation = validate(of_results(args.results), threshold)
    if args.json:
        print(json.dumps(validation.to_dict()))
    else:
        _show_validation(validation)
    return 0


def _show(suggestion: Suggestion, args: argparse.Namespace) -> None:
    print(f"for {suggestion.environment}")
    print(f"  potential  {suggestion.potential}\n  drift      {suggestion.drift}")
    for name in ("alpha", "lam"):
        low, high = getattr(suggestion, f"{name}_range")
        print(f"  {name:<9}  {getattr(suggestion, name):<8g} search {low:g} to {high:g}")
    print("\nwhy")
    for reason in suggestion.reasons:
        print(textwrap.fill(reason, 96, initial_indent="  - ", subsequent_indent="    "))
    print("how sure")
    print(textwrap.fill(suggestion.sure, 96, initial_indent="  ", subsequent_indent="  "))
    plugins = "".join(f" --plugin {name}" for name in args.plugin)
    results = f" --results {shlex.quote(args.results)}" if args.results else ""
    print(f"\ntry   {suggestion.command}{plugins}")
    print(f"      {suggestion.search}{plugins}{results}")


def _show_validation(validation: Validation) -> None:
    print(f"left out, and predicted from the others (good: at least {validation.threshold:g})")
    rows = [("pair", "environment", "alpha", "lam", "score", "best", "hit", "random", "single")]
    for row in validation.rows:
        pair = f"({row.potential}, {row.drift})", row.environment
        cell = f"{row.alpha:g}", f"{row.lam:g}", f"{row.score:.3f}", f"{row.best:.3f}"
        hit, single = ("yes" if each else "no" for each in (row.success, row.fixed))
        rows.append((*pair, *cell, hit, f"{row.random:.1%}", single))
    print(textwrap.indent(columns(rows, left=2), "  "))
    count = len(validation.rows)
    print(f"\nsuggested cell, for an environment not seen:   {validation.suggested:.1%} of {count}")
    if validation.joint:
        hits = sum(row.success for row in validation.joint)
        print(f"pair and cell, for an environment not seen:    {hits} of {len(validation.joint)}")
    print(f"random cell:                                   {validation.random:.1%}")
    print(f"best single cell, which has seen every one:    {validation.fixed:.1%}")
    if not isnan(validation.default):
        print(f"the plain default:                             {validation.default:.1%}")
    names = len({row.environment for row in validation.rows})
    print(f"{names} environments are few: the rates show a direction, not a size.")
