"""`mirrorax solve`: exact Policy Mirror Descent on a finite MDP, as a table and a picture."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.tabular import MDP, Trace

_EXAMPLES = """examples:
  mirrorax solve --mdp deepsea --size 8 --potential entropy --drift kl --alpha 0.01 --lam 0.1
  mirrorax solve --mdp catch --potential "tsallis(0.5)" --drift "bregman(tsallis(0.5))" \\
      --alpha 0.1 --lam 1 --plot gap.png
  mirrorax solve --mdp garnet --states 100 --actions 5 --seed 3 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    add = parser.add_argument
    add(
        "--mdp",
        default="deepsea",
        choices=("deepsea", "catch", "chain", "garnet"),
        help="the finite MDP; garnet is a random one (deepsea)",
    )
    sizes = "deepsea: side (8); catch: rows (10); chain: length (10)"
    add("--size", type=int, metavar="N", help=sizes)
    add("--columns", type=int, metavar="N", help="catch: columns (5)")
    add("--states", type=int, metavar="N", help="garnet: states (20)")
    add("--actions", type=int, metavar="N", help="garnet: actions (4)")
    add("--branching", type=int, metavar="N", help="garnet: states each action can lead to (3)")
    add("--seed", type=int, default=0, metavar="N", help="seed of a garnet and of --noise (0)")
    add("--gamma", type=float, default=0.99, metavar="X", help="discount factor (0.99)")
    add("--potential", default="entropy", metavar="NAME", help="the potential h (entropy)")
    add("--drift", default="kl", metavar="NAME", help="the drift D (kl)")
    add("--alpha", type=float, default=0.01, metavar="X", help="temperature of h (0.01)")
    add("--lam", type=float, default=0.1, metavar="X", help="temperature of D (0.1)")
    add("--anneal-alpha", action="store_true", help="let alpha fall to 0 (homotopic PMD)")
    add("--anneal-lam", action="store_true", help="let lam fall to 0")
    add("--v", type=float, metavar="X", help="learn lam: keep the drift of a step at this weight")
    add(
        "--critic",
        default="regularized",
        choices=("regularized", "unregularized"),
        help="the Q that steps follow; unregularized is APMD (regularized)",
    )
    add("--noise", type=float, default=0.0, metavar="X", help="noise on Q, its deviation (0)")
    add("--iterations", type=int, default=50, metavar="N", help="number of steps (50)")
    add("--plot", metavar="FILE", help="draw the gap on a log axis: .png, .svg or .pdf")
    flags.add_plugin(parser)
    flags.add_json(parser)


#: MDP -> {flag: the builder's argument}: the flags that mean something for it
_FLAGS = {
    "deepsea": {"size": "size"},
    "catch": {"size": "rows", "columns": "columns"},
    "chain": {"size": "length"},
    "garnet": {"states": "num_states", "actions": "num_actions", "branching": "branching"},
}


def _build(args: argparse.Namespace) -> MDP:
    from mirrorax import tabular

    values = {}
    for flag in ("size", "columns", "states", "actions", "branching"):
        value = getattr(args, flag)
        if value is None:
            continue
        if flag not in _FLAGS[args.mdp]:
            known = ", ".join(f"--{f}" for f in _FLAGS[args.mdp])
            raise UserError(f"--{flag}: {value} has no meaning for --mdp {args.mdp}; use {known}")
        values[_FLAGS[args.mdp][flag]] = value
    if args.mdp == "garnet":
        values["seed"] = args.seed
    mdp: MDP = getattr(tabular, args.mdp)(gamma=args.gamma, **values)
    return mdp


def run(args: argparse.Namespace) -> int:
    """Solve, print, draw."""
    flags.load_plugins(args)
    # Names and numbers are checked before anything heavy is imported.
    from mirrorax.regularizers.names import parse_drift, parse_potential

    parse_potential(args.potential, "--potential")
    parse_drift(args.drift, "--drift")
    for name in ("alpha", "lam", "noise"):
        value = getattr(args, name)
        if not 0 <= value < float("inf"):
            raise UserError(f"--{name}: {value} is not allowed: a finite number >= 0")
    if not 0 <= args.gamma < 1:
        raise UserError(f"--gamma: {args.gamma} is not allowed: a number in [0, 1)")
    if args.iterations < 1:
        raise UserError(f"--iterations: {args.iterations} is not allowed: a whole number >= 1")
    if args.seed < 0:
        raise UserError(f"--seed: {args.seed} is not allowed: a whole number >= 0")
    if args.plot is not None:
        from mirrorax.cli.output import check_target

        check_target("--plot", args.plot)

    from mirrorax.tabular import solve

    mdp = _build(args)
    trace = solve(
        mdp,
        args.potential,
        args.drift,
        _annealed(args.alpha, args.iterations) if args.anneal_alpha else args.alpha,
        _lam(args),
        args.iterations,
        critic=args.critic,
        noise=args.noise,
        seed=args.seed,
    )
    if args.plot:
        _draw(mdp, trace, args)
    if args.json:
        print(json.dumps(_as_json(mdp, trace, args)))
    else:
        _print(mdp, trace, args)
    return 0


def _lam(args: argparse.Namespace) -> Any:
    if args.v is not None:
        from mirrorax.tabular import LearnedLam

        return LearnedLam(args.v, annealed=args.anneal_lam)
    return _annealed(args.lam, args.iterations) if args.anneal_lam else args.lam


def _annealed(start: float, iterations: int) -> Any:
    return lambda k: start * (1 - k / iterations)


def _as_json(mdp: MDP, trace: Trace, args: argparse.Namespace) -> dict[str, Any]:
    other = ("json", "plot", "plugin")
    settings = {k: v for k, v in vars(args).items() if v is not None and k not in other}
    measured = float(trace.measured_rate)
    return {
        **settings,
        "num_states": mdp.num_states,
        "num_actions": mdp.num_actions,
        "gap": trace.gap.tolist(),
        "returns": trace.returns.tolist(),
        "optimal_return": float((trace.optimum.v * mdp.initial).sum()),
        "policy_change": trace.policy_change.tolist(),
        "policy_distance": trace.policy_distance.tolist(),
        "promised_rate": None if trace.promised_rate is None else float(trace.promised_rate),
        "measured_rate": None if measured != measured else measured,
        "optimum_error": trace.optimum.error,
    }


def _rates(trace: Trace) -> str:
    rate = float(trace.measured_rate)
    measured = f"the gap shrank by a factor {rate:.4f} per step"
    if rate != rate:
        measured = "the gap was 0 after the first step"
    if trace.promised_rate is None:
        return f"{measured}; theory promises no rate for this setting"
    return f"{measured}; theory promises at most {float(trace.promised_rate):.4f}"


def _title(args: argparse.Namespace) -> str:
    alpha = f"alpha {args.alpha:g}" + (" falling" if args.anneal_alpha else "")
    lam = f"lam {args.lam:g}" if args.v is None else f"lam learned, v {args.v:g}"
    lam += " falling" if args.anneal_lam else ""
    name = "APMD" if args.critic == "unregularized" else "PMD"
    return f"{name}({args.potential}, {args.drift}), {alpha}, {lam}"


def _print(mdp: MDP, trace: Trace, args: argparse.Namespace) -> None:
    from rich.table import Table

    from mirrorax.cli.output import console

    out = console()
    table = Table(title=f"{mdp.name}: {_title(args)}", title_justify="left")
    for column in ("step", "gap to optimum", "return", "policy change", "distance to pi*"):
        table.add_column(column, justify="right")
    rows = range(args.iterations + 1)
    shown = [k for k in rows if k < 5 or k == rows[-1] or k % max(1, args.iterations // 10) == 0]
    for k in shown:
        table.add_row(
            str(k),
            f"{trace.gap[k]:.3e}",
            f"{trace.returns[k]:.6f}",
            f"{trace.policy_change[k - 1]:.3e}" if k else "",
            f"{trace.policy_distance[k]:.3e}",
        )
    out.print(table)
    best = float((trace.optimum.v * mdp.initial).sum())
    which = f"regularised with alpha = {float(trace.reference_alpha):g}"
    out.print(f"values are of the MDP {which}; its optimal return is {best:.6f}")
    out.print(_rates(trace))
    if args.plot:
        out.print(f"picture: {args.plot}")


def _draw(mdp: MDP, trace: Trace, args: argparse.Namespace) -> None:
    from mirrorax.cli.output import save_figure
    from mirrorax.tabular.figures import convergence

    save_figure(args.plot, lambda ax: convergence(trace, ax, title=f"{mdp.name}: {_title(args)}"))
