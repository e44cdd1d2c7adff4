"""The command line: one module per command, imported only when its command is called.

A command module imports nothing heavy at its top and has

- `EXAMPLES`, the end of its help,
- `FLAGS`, a table of flags (see `Parser.add_flags`), or `ACTIONS`: name -> (sentence, flags),
- `run(args)`, which does the work and returns the exit code,
- `add_arguments(parser)` where flags are made from something else, such as the settings.

A mistake in the input is a `mirrorax.errors.UserError`: one line on standard error, exit code 2.
An error of the operating system, such as a full disk, is one line too, with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mirrorax._version import __version__
from mirrorax.cli.flags import SHARED
from mirrorax.errors import UserError, nearest, plain, unknown
from mirrorax.formatting import whole

#: command -> (module, one line for `mirrorax --help`)
COMMANDS = {
    "train": ("mirrorax.cli.train", "train MDPO(h, D) on one environment, over seeds and grids"),
    "play": ("mirrorax.cli.play", "evaluate trained policies again, record an episode as a GIF"),
    "sweep": ("mirrorax.cli.sweep", "run studies of many runs; watch, check and export them"),
    "report": ("mirrorax.cli.report", "write one HTML page to explore results"),
    "robustness": ("mirrorax.cli.robustness", "print how robust each pair is to its temperatures"),
    "suggest": ("mirrorax.cli.suggest", "recommend regularisers and temperatures from results"),
    "tune": ("mirrorax.cli.tune", "search temperatures with a budget of runs"),
    "solve": ("mirrorax.cli.solve", "solve a finite MDP by exact Policy Mirror Descent"),
    "paper": ("mirrorax.cli.paper", "reproduce the paper: list, run and compare its studies"),
    "list": ("mirrorax.cli.listing", "list environments, potentials, drifts, schedules, ..."),
    "doctor": ("mirrorax.cli.doctor", "check the installation: versions, device, learning, speed"),
    "completion": ("mirrorax.cli.completion", "print the completion script for bash or zsh"),
}


#: flags that other tools have -> what they are called here
_OTHER_NAMES = {
    "--lr": "--actor-lr and --critic-lr",
    "--learning-rate": "--actor-lr and --critic-lr",
    "--lambda": "--lam",
    "--temperature": "--alpha or --lam",
    "--regularizer": "--potential or --drift",
    "--timesteps": "--steps",
    "--total-timesteps": "--steps",
    "--episodes": "--eval-episodes",
    "--layers": "--hidden",
    "--output": "--out",
    "--seed": "--seeds",
}

# A row of a table, and the value in it: metavar or choices, how many, needed, bounds, default.
_ROW = re.compile(r"(?P<names>[^\s,]+(?:, --\S+)*)(?: (?P<value>\S+))?\s{2,}(?P<text>\S.*)")
_VALUE = re.compile(
    r"(?P<word>[\w.,:|-]+?)(?P<many>[+*?]?)(?P<needed>!?)"
    r"(?P<bounds>(?:[<>]=?\d+)*)(?:=(?P<default>.*))?"
)
_SIGNS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}

_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)
_UNKNOWN = "unrecognized arguments: "
_MISSING = "the following arguments are required: "


class Typed(argparse.Action):
    """Store a value, and the spelling of the flag that gave it in `args.typed`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store both; two spellings of one flag are a mistake."""
        typed = getattr(namespace, "typed", {})
        flag = option_string or self.dest
        if typed.get(self.dest, flag) != flag:
            parser.error(f"{flag}: {typed[self.dest]} is given too, and means the same")
        setattr(namespace, self.dest, values)
        namespace.typed = {**typed, self.dest: flag}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a `UserError` with one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options = {
            "formatter_class": argparse.RawDescriptionHelpFormatter,
            "allow_abbrev": False,
            **options,
        }
        super().__init__(*arguments, **options)
        self.register("action", None, Typed)

    def add_flags(self, table: str) -> None:
        """Declare the flags of a table: one row each, with two spaces before its sentence.

            FOLDER              a positional argument; FOLDER? may be left out, NAME* may be several
            --greedy            a switch
            --gif FILE.gif      a text
            --episodes N>=1=10  a whole number in bounds, 10 unless given; X is any number
            --critic one|two    one of these
            --store DIR!        it is needed
            --thresholds X+     several values; with * the flag may be given several times
            @json               the rows of this name in `flags.SHARED`

        A line that begins with spaces continues the sentence above it.
        """
        for row in re.sub(r"\n +", " ", table).split("\n"):
            if row.startswith("@"):
                self.add_flags(SHARED[row[1:]])
            elif row:
                self._add_row(row)

    def _add_row(self, row: str) -> None:
        match = _ROW.fullmatch(row)
        assert match is not None, row
        names, text = match["names"].split(", "), match["text"].replace("%", "%%")
        if match["value"] is None and names[0].startswith("-"):
            self.add_argument(*names, action="store_true", help=text)
            return
        value = _VALUE.fullmatch(match["value"] or names[0])
        assert value is not None, row
        word, many, default = value["word"], value["many"], value["default"]
        options: dict[str, Any] = {"metavar": word, "help": text}
        if "|" in word:
            options["choices"] = word.split("|")
        if word in ("N", "X"):
            options["type"] = _number(word, value["bounds"])
        if default is not None:
            read = options.get("type", str)
            options["default"] = [read(v) for v in default.split(",")] if many else default
            options["help"] += f" ({default.replace(',', ' ')})"
        if not names[0].startswith("-"):
            name = names[0].partition(".")[0].rstrip("?*")
            options |= {"nargs": many or None, "metavar": name if "|" in word else word}
            self.add_argument(name.lower(), **options)
            return
        if many == "*":
            options |= {"action": "append", "default": []}
        elif many:
            options["nargs"] = many
        dest = names[0].lstrip("-").replace("-", "_")
        self.add_argument(*names, dest=dest, required=bool(value["needed"]), **options)

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as a `UserError`, so that there is one way to report mistakes."""
        message = message.removeprefix("argument ")
        if (name := message.removeprefix(_MISSING)) != message:
            message += self._choices(name)
        raise UserError(f"{message} (see '{self.prog} --help')")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Refuse unknown arguments here: the parser of an action knows its flags best."""
        parsed, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"{_UNKNOWN}{' '.join(rest)}{self._advice(rest, args or [])}")
        return parsed, rest

    def _choices(self, name: str) -> str:
        for action in self._actions:
            if action.metavar == name and action.choices:
                return f": one of {', '.join(map(str, action.choices))}"
        return ""

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


def _number(word: str, bounds: str) -> Callable[[str], float]:
    """Return what reads a number within bounds, such as ">=0<1"."""
    limits = [(sign, int(limit)) for sign, limit in re.findall(r"([<>]=?)(\d+)", bounds)]
    kind = "a whole number" if word == "N" else "a finite number"
    allowed = " and".join(f" {sign} {limit}" for sign, limit in limits)

    def read(text: str) -> float:
        try:
            value = whole(text) if word == "N" else float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}") from None
        inside = all(_SIGNS[sign](value, limit) for sign, limit in limits)
        if not (inside and math.isfinite(value)):
            raise argparse.ArgumentTypeError(f"{text} is not allowed: {kind}{allowed}")
        return value

    return read


def _overview() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return (
        "usage: mirrorax COMMAND [options]\n\n"
        "Policy Mirror Descent with any pair of regularisers (h, D).\n\n"
        f"commands:\n{rows}\n\n"
        "  mirrorax COMMAND --help   the options of one command, with examples\n"
        "  mirrorax --version        the version\n\n"
        "start here:\n"
        "  mirrorax train --env Catch --alpha 0.05 --lam 1 --steps 150000\n"
    )


def parser_of(name: str) -> Parser:
    """Return the parser of a command, with all its flags."""
    path, line = COMMANDS[name]
    module = importlib.import_module(path)
    description = f"{line[0].upper()}{line[1:].removesuffix(', ...')}."
    parser = Parser(prog=f"mirrorax {name}", description=description, epilog=module.EXAMPLES)
    parser.add_flags(getattr(module, "FLAGS", ""))
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    if hasattr(module, "ACTIONS"):
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action, (text, table) in module.ACTIONS.items():
            actions.add_parser(action, help=text, description=text).add_flags(table)
    return parser


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview(), end="")
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"mirrorax {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    args = parser_of(argv[0]).parse_args(argv[1:])
    return int(importlib.import_module(COMMANDS[argv[0]][0]).run(args))


def _discard_output() -> None:
    """Drop unwritten output: the interpreter would report it as an error when it ends."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # a full disk is reported below
        return code
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mirrorax: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output ended: `mirrorax ... | head`
        _discard_output()
        sys.stderr.close()
        return 141
    except OSError as error:
        where = error.filename if error.filename is not None else "cannot write the output"
        reason = error.strerror or str(error) or type(error).__name__
        print(f"mirrorax: error: {plain(where)}: {plain(reason)}", file=sys.stderr)
        _discard_output()
        return 1
