"""`mirrorax solve`: exact Policy Mirror Descent on a finite MDP, as a table and a picture."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError
from mirrorax.files import check_target
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
--seed N>=0=0       seed of a garnet and of --noise
--gamma X>=0<1=0.99     discount factor
--potential NAME=entropy   the potential h
--drift NAME=kl     the drift D
--alpha X>=0=0.01   temperature of h
--lam X>=0=0.1      temperature of D
--anneal-alpha      let alpha fall to 0 (homotopic PMD)
--anneal-lam        let lam fall to 0
--v X>=0            learn lam: keep the drift of a step at this weight
--critic regularized|unregularized=regularized   the Q that steps follow; unregularized is APMD
--noise X>=0=0      standard deviation of noise on Q
--iterations N>=1=50    number of steps
--plot FILE         draw the gap on a log axis: .png, .svg or .pdf
@plugin
@json
"""


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
    # Names are checked before anything heavy is imported.
    from mirrorax.regularizers.names import parse_drift, parse_potential

    parse_potential(args.potential, "--potential")
    parse_drift(args.drift, "--drift")
    if args.plot is not None:
        check_target("--plot", args.plot, (".png", ".svg", ".pdf"))

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
    other = ("json", "plot", "plugin", "flags")
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
    rows = [("step", "gap to optimum", "return", "policy change", "distance to pi*")]
    every = max(1, args.iterations // 10)
    for k in range(args.iterations + 1):
        if k < 5 or k == args.iterations or k % every == 0:
            change = f"{trace.policy_change[k - 1]:.3e}" if k else ""
            distance = f"{trace.policy_distance[k]:.3e}"
            row = (str(k), f"{trace.gap[k]:.3e}", f"{trace.returns[k]:.6f}", change, distance)
            rows.append(row)
    print(f"{mdp.name}: {_title(args)}\n{columns(rows, left=0)}\n")
    best = float((trace.optimum.v * mdp.initial).sum())
    which = f"regularised with alpha = {float(trace.reference_alpha):g}"
    print(f"values are of the MDP {which}; its optimal return is {best:.6f}")
    print(_rates(trace))
    if args.plot:
        print(f"picture: {args.plot}")


def _draw(mdp: MDP, trace: Trace, args: argparse.Namespace) -> None:
    from mirrorax.figures import style
    from mirrorax.files import write_file
    from mirrorax.tabular.figures import convergence

    data = io.BytesIO()
    with style.style():
        figure, ax = style.new(style.PAGE * 0.8, style.PAGE * 0.52)
        convergence(trace, ax, title=f"{mdp.name}: {_title(args)}")
        figure.savefig(data, format=Path(args.plot).suffix[1:].lower())
    write_file(args.plot, data.getvalue())
