"""The command line: one module per command, imported only when its command is called.

A command module has two functions and imports nothing heavy at its top:

- `add_arguments(parser)` declares the flags,
- `run(args)` does the work and returns the exit code.

A mistake in the input is a `mirrorax.errors.UserError`: one line on standard error, exit code 2.
An error of the operating system, such as a full disk, is one line too, with exit code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from mirrorax._version import __version__
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

_NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?", re.IGNORECASE)
_UNKNOWN = "unrecognized arguments: "
_MISSING = "the following arguments are required: "


class Parser(argparse.ArgumentParser):
    """An argument parser that raises a `UserError` with one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", int, whole)

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as a `UserError`, so that there is one way to report mistakes."""
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
    module, line = COMMANDS[name]
    parser = Parser(
        prog=f"mirrorax {name}",
        description=f"{line[0].upper()}{line[1:].removesuffix(', ...')}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    importlib.import_module(module).add_arguments(parser)
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
