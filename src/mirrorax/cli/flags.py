"""How flags are declared and read, and how an error names the flag that it is about.

A command declares its flags in a table of text, one row each (`Parser.add_flags`). The rows of
settings and values of runs are made from their fields.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from mirrorax.errors import UserError, nearest
from mirrorax.formatting import flag_text, whole
from mirrorax.runs.presets import OTHER_NAMES

#: rows that tables of flags name, such as "@json"; `_rows_of` makes some more
SHARED = {
    "plugin": "--plugin MODULE*  import a module that registers your own names; may be given "
    "several times",
    "json": "--json  print one JSON object and nothing else",
    "environment": "--env NAME  the environment, see 'mirrorax list environments'",
    "preset": "--preset NAME  start from the settings of a preset, see 'mirrorax list presets'",
    "results": """
RESULTS?            a store, an exported file, or a folder that holds results
--store DIR         another way to give RESULTS
""",
    "reference": "--reference FILE  compare with the values of Rbst in a TOML file, or with "
    "`paper`: its Table 1",
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
--log NAME:TARGET   write each finished chunk for a viewer: tensorboard:DIR, wandb:PROJECT or
                    mlflow:URI; :TARGET may be left out
--quiet             show no progress
""",
}


def flag(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.replace('_', '-')}"


def _flags_of(fields: str) -> str:
    """Return names of fields, joined by "and" or "or", as flags."""
    return " ".join(w if w in ("and", "or") else flag(w) for w in fields.split())


#: flags that other tools have -> what they are called here
_OTHER_NAMES = {
    **{_flags_of(name): _flags_of(field) for name, field in OTHER_NAMES.items()},
    "--environment": "--env",
    "--regularizer": "--potential or --drift",
    "--episodes": "--eval-episodes",
    "--layers": "--hidden",
    "--output": "--out",
    "--seed": "--seeds",
}

# A row of a table, and the value in it: metavar or choices, how many, needed, bounds, default.
_ROW = re.compile(r"(?P<name>\S+)(?: (?P<value>\S+))?\s{2,}(?P<text>\S.*)")
_VALUE = re.compile(
    r"(?P<word>[\w.,:|-]+?)(?P<many>[+*?]?)(?P<needed>!?)"
    r"(?P<bounds>(?:[<>]=?\d+)*)(?:=(?P<default>.*))?"
)
_SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)
# The field at the head of an error's line, with the place in a list if there is one: "hidden.1: ".
_HEAD = re.compile(r"(?P<field>[a-z_]+)(?:\.\d+)*: ")


class Parser(argparse.ArgumentParser):
    """An argument parser whose flags stand in tables, and that raises a `UserError`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(*arguments, **{**options, "allow_abbrev": False})
        self._place: Any = self  # where flags are added: a heading changes it

    def add_flags(self, table: str) -> None:
        """Declare the flags of a table: one row each, with two spaces before its sentence.

            FOLDER              a positional argument; FOLDER? may be left out, NAME* may be several
            --greedy            a switch
            --gif FILE.gif      a text
            --episodes N>=1=10  a whole number in bounds, 10 unless given; X is any number
            --critic one|two    one of these
            --store DIR!        it is needed
            --seeds N,N         a number of seeds, or several seeds
            --thresholds X+     several values; with * the flag may be given several times
            @json               the rows of this name in `SHARED`
            # the settings      a heading above the rows that follow

        A line that begins with spaces continues the sentence above it.
        """
        for row in re.sub(r"\n +", " ", table).split("\n"):
            if row.startswith("@"):
                self.add_flags(SHARED.get(row[1:]) or _rows_of(row[1:]))
            elif row.startswith("#"):
                self._place = self.add_argument_group(row[2:])
            elif row:
                self._add_row(row)

    def _add_row(self, row: str) -> None:
        match = _ROW.fullmatch(row)
        assert match is not None, row
        name, text = match["name"], match["text"].replace("%", "%%")
        if match["value"] is None and name.startswith("-"):
            self._place.add_argument(name, action="store_true", help=text)
            return
        value = _VALUE.fullmatch(match["value"] or name)
        assert value is not None, row
        word, many, default = value["word"], value["many"], value["default"]
        options: dict[str, Any] = {"metavar": word, "help": text}
        if "|" in word:
            options["choices"] = word.split("|")
        if (read := _reader(word, value["bounds"])) is not None:
            options["type"] = read
        if default is not None:
            each = read or str
            options["default"] = [each(v) for v in default.split(",")] if many else default
            options["help"] += f" ({default.replace(',', ' ')})"
        if not name.startswith("-"):
            name = name.partition(".")[0].rstrip("?*")
            options |= {"nargs": many or None, "metavar": name if "|" in word else word}
            self.add_argument(name.lower(), **options)
            return
        if many == "*":
            options |= {"action": "append", "default": []}
        elif many:
            options["nargs"] = many
        self._place.add_argument(name, required=bool(value["needed"]), **options)

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as a `UserError`, so that there is one way to report mistakes."""
        message = message.removeprefix("argument ")
        name = message.removeprefix("the following arguments are required: ")
        for action in self._actions:
            if action.metavar == name and action.choices:
                message += f": one of {', '.join(map(str, action.choices))}"
        raise UserError(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Note the flag of each field, for `naming`; refuse what is unknown to this parser.

        The parser of an action refuses it, not the one above: it knows its flags best.
        """
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            advice = self._advice(rest, args or [])
            self.error(f"unrecognized arguments: {' '.join(rest)}{advice}")
        own = {a.dest: a.option_strings[0] for a in self._actions if a.option_strings}
        parsed.flags = {**own, **getattr(parsed, "flags", {})}  # those of an action, too
        return parsed, rest

    def _advice(self, unknown: Sequence[str], words: Sequence[str]) -> str:
        """Say which flag, or which way to write a list, was probably meant."""
        known = [each for action in self._actions for each in action.option_strings]
        flag = next((word for word in unknown if word.startswith("--")), "").partition("=")[0]
        if flag:
            other = _OTHER_NAMES.get(flag)
            if other is not None and other.split()[0] in known:
                return f"; use {other}"
            guess = nearest(flag, known, 0.7)
            return f"; did you mean {guess}?" if guess else ""
        for at in range(2, len(words)):
            flag, first, second = words[at - 2 : at + 1]
            if flag in known and second in unknown and all(map(_NUMBER.fullmatch, (first, second))):
                rest = list(itertools.takewhile(_NUMBER.fullmatch, words[at - 1 :]))
                return f"; separate values by commas: {flag} {','.join(rest)}"
        return ""


@contextlib.contextmanager
def naming(args: argparse.Namespace) -> Iterator[None]:
    """Let an error about a field name the flag, or the file of `--config`, that it came from."""
    try:
        yield
    except UserError as error:
        text = str(error)
        head = _HEAD.match(text)
        if head is None:
            raise
        given = {k: flag for k, flag in args.flags.items() if getattr(args, k, None) is not None}
        also = {"environment": "env", "seed": "seeds"}.get(head["field"], "")
        if flag := given.get(head["field"], given.get(also)):
            raise UserError(f"{flag}: {text[head.end() :]}") from None
        # A default may not fit what was typed: "batch_size: 512 is larger than buffer_size = 100".
        for other, flag in given.items():
            if f" {other} = " in text:
                raise UserError(f"{flag}: {text}") from None
        if "config" in given:
            raise UserError(f"--config: {args.config}: {text}") from None
        raise


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

#: type of a setting's default -> how its value is written in a table
_WORDS = {bool: "BOOL", int: "N", float: "X", tuple: "WIDTHS"}


def _setting_names() -> list[str]:
    from mirrorax.runs.settings import Settings

    # The first has its own flag, the second is derived.
    return [name for name in Settings.model_fields if name not in ("environment", "plugins")]


def _rows_of(name: str) -> str:
    """Return the rows of all settings, or of some of the numbers of a run (GRID, ...)."""
    from mirrorax.runs import settings

    if name != "settings":
        learned = {"w": "0.5 where alpha is learned", "v": "0.1 where lam is learned"}
        word, values = "X,X" if name == "GRID" else "X", settings.RunValues().model_dump()
        return "\n".join(
            f"{flag(field)} {word}  {MEANING[field]} ({learned.get(field, values[field])})"
            for field in getattr(settings, name)
        )
    rows = []
    for field in _setting_names():
        info = settings.Settings.model_fields[field]
        choices = [c for c in getattr(info.annotation, "__args__", ()) if isinstance(c, str)]
        words = f"{MEANING[field]}: {' | '.join(choices)}" if choices else MEANING[field]
        word, default = _WORDS.get(type(info.default), "NAME"), flag_text(info.default)
        rows.append(f"{flag(field)} {word}  {words} ({default or 'none'})")
    return "\n".join(rows)


def typed_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that were given by flags."""
    values = {name: getattr(args, name, None) for name in _setting_names()}
    return {name: value for name, value in values.items() if value is not None}


def read_setting(name: str, text: str) -> Any:
    """Read the text of one setting as its flag does."""
    from mirrorax.runs.settings import Settings

    info = Settings.model_fields.get(name)
    read = _reader(_WORDS.get(type(info and info.default), "NAME"))
    try:
        return text if read is None else read(text)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{name}: {error}") from None


def _reader(word: str, bounds: str = "") -> Callable[[str], Any] | None:
    """Return what reads a value that a table writes as `word`; None for a text."""
    limits = [(sign, int(limit)) for sign, limit in re.findall(r"([<>]=?)(\d+)", bounds)]
    allowed = " and".join(f" {sign} {limit}" for sign, limit in limits)
    number = whole if word.startswith("N") else float
    kind = "a whole number" if word.startswith("N") else "a finite number"

    def read(text: str) -> float:
        try:
            value = number(text)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}") from None
        inside = all(_SIGNS[sign](value, limit) for sign, limit in limits)
        if not (inside and math.isfinite(value)):
            raise argparse.ArgumentTypeError(f"{text} is not allowed: {kind}{allowed}")
        return value

    def several(text: str) -> Any:
        """Read "5", "3,8", or "7,", which is a list of one."""
        values = [read(part) for part in text.removesuffix(",").split(",")]
        return values if "," in text else values[0]

    readers: dict[str, Callable[[str], Any]] = {"N": read, "X": read, "N,N": several}
    readers |= {"X,X": several, "WIDTHS": lambda text: text.split(",") if text else []}
    return readers.get(word)
