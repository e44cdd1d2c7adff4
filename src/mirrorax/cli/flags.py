"""Flags that several commands share, and errors that name them.

Settings and values have one flag for each field, the same in `train` and `tune`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.analysis.reference import Reference

# The field at the head of an error's line, with the place in a list if there is one: "hidden.1: ".
_HEAD = re.compile(r"(?P<field>[a-z_]+)(?:\.\d+)*: ")

#: rows that tables of flags name, such as "@json"
SHARED = {
    "plugin": """
--plugin MODULE*    import a module that registers your own names; may be given several times
""",
    "json": """
--json              print one JSON object and nothing else
""",
    "environment": """
--env, --environment NAME   the environment, see 'mirrorax list environments'
""",
    "preset": """
--preset NAME       start from the settings of a preset, see 'mirrorax list presets'
""",
    "lanes": """
--lanes N           runs trained side by side (set by the device)
--layout NAME       update lane by lane (map), or batched (vmap) (set by the device)
""",
    "results": """
RESULTS?            a store, an exported file, or a folder that holds results
--store DIR         another way to give RESULTS
""",
    "reference": """
--reference FILE    compare with the values of Rbst in a TOML file, or with `paper`: its Table 1
""",
    "sizes": """
--lanes N>=1        runs trained side by side (chosen to fit)
--workers N>=1      worker processes (one for each core)
--gpus N>=1         one worker on each of N GPUs
--retry-failed      run failed runs again
""",
    "engine": """
@sizes
--engine local|ray=local    train on this machine or on a Ray cluster
--address HOST:PORT=auto    the Ray cluster; auto: the one here
--fail-fast         stop at the first failed chunk
--take-over         take the store from a process on another machine that has ended
--chunk-timeout N>=1        end a worker whose chunk takes longer, in seconds; the chunk is tried
                    again
--quiet             show no progress
""",
}


@contextlib.contextmanager
def naming(
    args: argparse.Namespace,
    flags: Mapping[str, str] | None = None,
    from_file: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Let an error about a field name the flag, or the file, that the field came from.

    `flags` says which flag stands for a field of another name; `from_file` holds the fields that
    were read from `args.config`, and may be filled while the context is open.
    """
    try:
        yield
    except UserError as error:
        text = str(error)
        head = _HEAD.match(text)
        if head is None:
            raise
        field = (flags or {}).get(head["field"], head["field"])
        typed = getattr(args, "typed", {})
        if field in typed:
            raise UserError(f"{typed[field]}: {text[head.end() :]}") from None
        if from_file and field in from_file:
            raise UserError(f"{typed.get('config', 'config')}: {args.config}: {text}") from None
        # A default may not fit what was typed: "batch_size: 512 is larger than buffer_size = 100".
        for other, flag in typed.items():
            if f" {other} = " in text:
                raise UserError(f"{flag}: {text}") from None
        raise


def load_plugins(args: argparse.Namespace) -> None:
    """Import the plugins of the flag."""
    if args.plugin:
        from mirrorax import plugins

        plugins.load_all(args.plugin)


def place_of(args: argparse.Namespace) -> str:
    """Return the path that was given."""
    if args.results is not None and args.store is not None:
        raise UserError(f"--store: {args.store!r}: RESULTS is given too ({args.results!r})")
    path: str | None = args.results if args.results is not None else args.store
    if path is None:
        raise UserError("RESULTS: missing; for example 'results/paper', or the store of a sweep")
    if not Path(path).exists():
        raise UserError(f"store: {path!r} does not exist")
    return path


def load_reference(args: argparse.Namespace) -> Reference | None:
    """Return the reference of the flag, if any."""
    if args.reference is None:
        return None
    if args.reference == "paper":
        from mirrorax.paper.table_1 import reference

        return reference()
    from mirrorax.analysis.reference import read_reference

    return read_reference(args.reference)


#: field -> what it does, for `--help`
MEANING = {
    "environment": "the environment, see 'mirrorax list environments'",
    "algorithm": "learn from a replay buffer, or from the last rollout alone",
    "potential": "the potential h, see 'mirrorax list potentials'",
    "drift": "the drift D, see 'mirrorax list drifts'",
    "steps": "environment steps of a run",
    "num_envs": "environments that one run steps side by side",
    "env_steps_per_update": "environment steps between two updates",
    "steps_counted": "count these steps over all environments together, or in each",
    "batch_size": "transitions in a batch; on-policy, in a minibatch of the rollout",
    "batches_per_update": "batches drawn at each update",
    "drift_from": "measure the drift from the policy before each batch, or before the update",
    "buffer_size": "transitions that the replay buffer keeps",
    "buffer_counted": "count these over all environments together, or in each",
    "actor_epochs": "gradient steps of the actor on each batch; on-policy, passes over the rollout",
    "critic_epochs": "the same for the critics",
    "hidden": "widths of the hidden layers, separated by commas; empty for none",
    "activation": "activation of the hidden layers",
    "network": "the network: auto adds a convolution for images; see 'mirrorax list networks'",
    "initialization": "how weights are drawn",
    "actor_gain": "gain of the actor's output layer (orthogonal initialisation)",
    "critic_gain": "gain of the critics' output layer (orthogonal initialisation)",
    "optimizer": "the optimiser, see 'mirrorax list optimizers'",
    "adam_eps": "epsilon of adam and rmsprop",
    "anneal_learning_rate": "true: let the learning rates fall linearly to 0",
    "twin_critics": "true: two critics and the smaller Q; false: one critic",
    "critic_target": "the critics' target: as in SAC, as the paper defines Q, or as it prints it",
    "clipping": "clip the gradient of each network by itself, or of both critics jointly",
    "max_grad_norm": "clip gradients to this norm",
    "bootstrap_truncation": "true: use the value of the last state after a time limit",
    "actor_q": "unregularized: leave h out of the critics' target (APMD)",
    "tau": "weight of the old target network at each update",
    "gae_lambda": "on-policy: lambda of the generalised advantage estimation",
    "normalize_advantages": "on-policy; true: scale the advantages of a minibatch to unit variance",
    "reference": "saved policy of to(policy, d): a folder of 'train --out', or FOLDER#RUN",
    "alpha_schedule": "how alpha changes during training, see 'mirrorax list schedules'",
    "lam_schedule": "how lam changes during training, see 'mirrorax list schedules'",
    "target_reference": "range of h for the target of a learned alpha: exact, or a bound",
    "temperature_units": "what alpha and lam are multiplied by: 1, the range of returns, or the "
    "running spread of Q",
    "eval_episodes": "episodes of the evaluation after training, stochastic and again greedy",
    "eval_every": "record learning curves every so many updates; 0: do not",
    "alpha": "temperature of the potential h",
    "lam": "temperature of the drift D",
    "w": "target of a learned alpha, from 0 to 1, in place of alpha",
    "v": "target of a learned lam: 0 keeps the policy, 1 lets it go half-way in one update",
    "gamma": "discount factor",
    "reward_scale": "factor on all rewards",
    "actor_lr": "learning rate of the actor",
    "critic_lr": "learning rate of the critics",
}

#: the values that `train` takes several of: they span a grid
VALUES = ("alpha", "lam", "w", "v", "gamma", "reward_scale", "actor_lr", "critic_lr")

#: settings that are no flags of this kind: the first has its own, the second is derived
_OTHER = ("environment", "plugins")


def flag(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.replace('_', '-')}"


def add_settings(parser: argparse.ArgumentParser, title: str) -> None:
    """Declare a flag for every setting."""
    from mirrorax.runs.settings import Settings

    group = parser.add_argument_group(title)
    for name, info in Settings.model_fields.items():
        if name in _OTHER:
            continue
        choices = [c for c in getattr(info.annotation, "__args__", ()) if isinstance(c, str)]
        words = f"{MEANING[name]}: {' | '.join(choices)}" if choices else MEANING[name]
        default = ",".join(map(str, info.default)) if name == "hidden" else info.default
        shown = str(default).lower() if isinstance(default, bool) else default
        group.add_argument(flag(name), metavar=_metavar(info), help=f"{words} ({shown})")


def add_values(parser: argparse.ArgumentParser, title: str, names: Collection[str]) -> None:
    """Declare a flag for each of some traced values."""
    from mirrorax.runs.settings import RunValues

    group = parser.add_argument_group(title)
    for name in names:
        default = RunValues.model_fields[name].default
        learned = {"w": "0.5 where alpha is learned", "v": "0.1 where lam is learned"}
        shown = learned.get(name, default)
        group.add_argument(flag(name), metavar="X", help=f"{MEANING[name]} ({shown})")


def _metavar(info: Any) -> str:
    if isinstance(info.default, bool):
        return "true|false"
    return {int: "N", float: "X", tuple: "N,N"}.get(type(info.default), "NAME")


def typed_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given by flags, as texts."""
    from mirrorax.runs.settings import Settings

    names = [name for name in Settings.model_fields if name not in _OTHER]
    texts = {name: getattr(args, name, None) for name in names}
    return {name: text for name, text in texts.items() if text is not None}


def numbers(name: str, text: Any) -> Any:
    """Read "0.1" or "0.1,0.2"; a number or list from TOML passes through."""
    if not isinstance(text, str):
        return text
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name}: {text!r} is not a number or numbers with commas") from None
    return values[0] if len(values) == 1 else values


def read_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the texts of settings read as they are written: 64,64 and 1e6."""
    from mirrorax.runs.settings import Settings

    out = dict(fields)
    widths = out.get("hidden")
    if isinstance(widths, str):
        out["hidden"] = widths.split(",") if widths else []
    for name, info in Settings.model_fields.items():
        if isinstance(info.default, int) and name in out:
            out[name] = _whole(out[name])
    return out


def _whole(value: Any) -> Any:
    """Read "1e6" as the whole number it is; everything else is left to the check of the field."""
    if not isinstance(value, str) or "e" not in value.lower():
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() else value
