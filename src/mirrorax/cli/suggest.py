"""`mirrorax suggest`: regularisers and temperatures for a task, from results."""

from __future__ import annotations

import argparse
import json
import shlex
import textwrap
from typing import TYPE_CHECKING

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.tuning.suggestion import Suggestion

EXAMPLES = """examples:
  mirrorax suggest --env CartPole
  mirrorax suggest --env CartPole --max-return 50          its rewards divided by ten
  mirrorax suggest --plugin mine --env Maze --drift kl     a task without results
  mirrorax suggest --env Catch --results my_store          learn from your own results

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
@plugin
@json
"""


def run(args: argparse.Namespace) -> int:
    """Suggest."""
    from mirrorax.tuning.suggestion import suggest

    if args.algorithm not in (None, "off_policy"):
        raise UserError(
            f"--algorithm: {args.algorithm!r} is not allowed: there are results of 'off_policy' "
            "alone; search with: mirrorax tune --algorithm on_policy"
        )
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
