"""`mirrorax solve`: exact Policy Mirror Descent on a finite MDP, as a table and a picture."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.errors import UserError
from mirrorax.files import check_target, write_file
from mirrorax.formatting import columns

if TYPE_CHECKING:
    from mirrorax.tabular import MDP, Trace

EXAMPLES = """examples:
  mirrorax solve --mdp deepsea --size 8 --potential entropy --drift kl --alpha 0.01 --lam 0.1
  mirrorax solve --mdp catch --potential "tsallis(0.5)" --drift "bregman(tsallis(0.5))" \\
      --alpha 0.1 --lam 1 --plot gap.png
  mirrorax solve --mdp garnet --states 100 --actions 5 --seed 3 --json
"""


FLAGS = """
--mdp deepsea|catch|chain|garnet=deepsea   the finite MDP; garnet is a random one
--size N            deepsea: side (8); catch: rows (10); chain: length (10)
--columns N         catch: columns (5)
--states N          garnet: states (20)
--actions N         garnet: actions (4)
--branching N       garnet: states each action can lead to (3)
--seed N>=0=0       seed of a garnet
--gamma X>=0<1=0.99     discount factor
--potential NAME=entropy   the potential h
--drift NAME=kl     the drift D
--alpha X>=0=0.01   temperature of h
--lam X>=0=0.1      temperature of D
--anneal-alpha      let alpha fall to 0 (homotopic PMD)
--critic regularized|unregularized=regularized   the Q that steps follow; unregularized is APMD
--iterations N>=1=50    number of steps
--plot FILE         draw the gap on a log axis: .png, .svg or .pdf
@plugin
@json
"""


#: MDP -> {flag: the builder's argument}: the flags that mean something for it
_SIZES = {
    "deepsea": {"size": "size"},
    "catch": {"size": "rows", "columns": "columns"},
    "chain": {"size": "length"},
    "garnet": {"states": "num_states", "actions": "num_actions", "branching": "branching"},
}


def _build(args: argparse.Namespace) -> MDP:
    from mirrorax import tabular

    values = {"seed": args.seed} if args.mdp == "garnet" else {}
    for flag in ("size", "columns", "states", "actions", "branching"):
        value, known = getattr(args, flag), _SIZES[args.mdp]
        if value is not None and flag not in known:
            allowed = ", ".join(f"--{each}" for each in known)
            raise UserError(f"{flag}: {value} has no meaning for --mdp {args.mdp}; use {allowed}")
        if value is not None:
            values[known[flag]] = value
    mdp: MDP = getattr(tabular, args.mdp)(gamma=args.gamma, **values)
    return mdp


def run(args: argparse.Namespace) -> int:
    """Solve, print, draw."""
    # Names are checked before anything heavy is imported.
    from mirrorax.regularizers.names import parse_drift, parse_potential

    parse_potential(args.potential, "potential")
    parse_drift(args.drift, "drift")
    if args.plot is not None:
        check_target("plot", args.plot, (".png", ".svg", ".pdf"))

    from mirrorax.tabular import solve

    def annealed(k: int) -> float:
        start: float = args.alpha
        return start * (1 - k / args.iterations)

    mdp, alpha = _build(args), annealed if args.anneal_alpha else args.alpha
    trace = solve(
        mdp, args.potential, args.drift, alpha, args.lam, args.iterations, critic=args.critic
    )
    title = f"{mdp.name}: {_title(args)}"
    if args.plot:
        from mirrorax.figures import style
        from mirrorax.tabular.figures import convergence

        draw = partial(convergence, trace, title=title)
        form = Path(args.plot).suffix[1:].lower()
        size = style.PAGE * 0.8, style.PAGE * 0.52
        write_file(args.plot, style.rendered(draw, form, *size), "plot")
    if args.json:
        print(json.dumps(_as_json(mdp, trace, args)))
    else:
        _print(title, mdp, trace, args)
    return 0


def _as_json(mdp: MDP, trace: Trace, args: argparse.Namespace) -> dict[str, Any]:
    other = ("json", "plot", "plugin", "flags")
    measured = float(trace.measured_rate)
    arrays = ("gap", "returns", "policy_change", "policy_distance")
    return {
        **{k: v for k, v in vars(args).items() if v is not None and k not in other},
        **{name: getattr(trace, name).tolist() for name in arrays},
        "num_states": mdp.num_states,
        "num_actions": mdp.num_actions,
        "optimal_return": float((trace.optimum.v * mdp.initial).sum()),
        "promised_rate": None if trace.promised_rate is None else float(trace.promised_rate),
        "measured_rate": None if measured != measured else measured,
        "optimum_error": trace.optimum.error,
    }


def _title(args: argparse.Namespace) -> str:
    alpha = f"alpha {args.alpha:g}" + (" falling" if args.anneal_alpha else "")
    name = "APMD" if args.critic == "unregularized" else "PMD"
    return f"{name}({args.potential}, {args.drift}), {alpha}, lam {args.lam:g}"


def _print(title: str, mdp: MDP, trace: Trace, args: argparse.Namespace) -> None:
    rows = [("step", "gap to optimum", "return", "policy change", "distance to pi*")]
    every = max(1, args.iterations // 10)
    for k in range(args.iterations + 1):
        if k < 5 or k == args.iterations or k % every == 0:
            change = f"{trace.policy_change[k - 1]:.3e}" if k else ""
            distance = f"{trace.policy_distance[k]:.3e}"
            row = (str(k), f"{trace.gap[k]:.3e}", f"{trace.returns[k]:.6f}", change, distance)
            rows.append(row)
    best, rate = float((trace.optimum.v * mdp.initial).sum()), float(trace.measured_rate)
    measured = f"the gap shrank by a factor {rate:.4f} per step"
    if rate != rate:
        measured = "the gap was 0 after the first step"
    promised = "theory promises no rate for this setting"
    if trace.promised_rate is not None:
        promised = f"theory promises at most {float(trace.promised_rate):.4f}"
    print(
        f"{title}\n{columns(rows, left=0)}\n\n"
        f"values are of the MDP regularised with alpha = {float(trace.reference_alpha):g}; "
        f"its optimal return is {best:.6f}\n{measured}; {promised}"
    )
    if args.plot:
        print(f"picture: {args.plot}")
