"""The command line: one module per command, imported only when its command is called.

A command module has two functions and imports nothing heavy at its top:

- `add_arguments(parser)` declares the flags,
- `run(args)` does the work and returns the exit code.

A mistake of the user's is a `mirrorax.errors.UserError`: it is printed as one line on standard
error and the exit code is 2. An error of the operating system that no command has words for, such
as a full disk under standard output, is one line too, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from mirrorax._version import __version__
from mirrorax.errors import UserError, nearest, plain, unknown
from mirrorax.formatting import whole

#: command -> (module, one line for `mirrorax --help`)
COMMANDS = {
    "solve": ("mirrorax.cli.solve", "exact Policy Mirror Descent on a finite MDP"),
    "train": ("mirrorax.cli.train", "train MDPO(h, D) on one environment, over seeds"),
    "play": ("mirrorax.cli.play", "evaluate trained policies again, record one as a GIF"),
    "sweep": ("mirrorax.cli.sweep", "studies of many runs: plan, run, status, export and more"),
    "robustness": ("mirrorax.cli.robustness", "how robust each pair is to its temperatures"),
    "report": ("mirrorax.cli.report", "one HTML page to explore a store"),
    "paper": ("mirrorax.cli.paper", "the paper's studies: list, run, compare with its figures"),
    "suggest": ("mirrorax.cli.suggest", "regularisers and temperatures for a task, from results"),
    "tune": ("mirrorax.cli.tune", "search temperatures for an environment with a budget of runs"),
    "doctor": ("mirrorax.cli.doctor", "check the installation: versions, device, self-test, speed"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are one line and whose exit code is 2."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.register("type", int, whole)

    def error(self, message: str) -> NoReturn:
        """Raise the complaint as a `UserError`, so that there is one way to report one."""
        raise UserError(f"{message}{self._advice(message)} (see '{self.prog} --help')")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Refuse what is unknown here: an action would hand it to its command, which knows less."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _advice(self, message: str) -> str:
        """Say which flag or action may have been meant."""
        if (wrong := message.removeprefix("unrecognized arguments: ")) != message:
            flag = next((w for w in wrong.split() if w.startswith("-")), "").partition("=")[0]
            known = [each for action in self._actions for each in action.option_strings]
            guess = nearest(flag, known, 0.7) if flag else None
            return f"; did you mean {guess}?" if guess else ""
        wanted = message.removeprefix("the following arguments are required: ")
        for action in self._actions:
            if action.metavar == wanted and action.choices:
                return f": one of {', '.join(map(str, action.choices))}"
        return ""


def _overview() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in COMMANDS.items())
    return (
        "usage: mirrorax COMMAND [options]\n\n"
        "Policy Mirror Descent with any pair of regularisers.\n\n"
        f"commands:\n{rows}\n\n"
        "  mirrorax COMMAND --help   the options of one command, with examples\n"
        "  mirrorax --version        the version\n"
    )


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview(), end="")
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        print(f"mirrorax {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    module_name, summary = COMMANDS[argv[0]]
    command = importlib.import_module(module_name)
    parser = Parser(
        prog=f"mirrorax {argv[0]}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return int(command.run(parser.parse_args(argv[1:])))


def _dispatch_and_flush(argv: Sequence[str]) -> int:
    """Run a command and write out what it printed, while a failure to do so can still be said."""
    code = _dispatch(argv)
    sys.stdout.flush()
    return code


def _discard_output() -> None:
    """Send what is still unwritten nowhere, or the interpreter would complain of it at its end."""
    if sys.__stdout__ is not None and sys.stdout is sys.__stdout__:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    try:
        return _dispatch_and_flush(sys.argv[1:] if argv is None else argv)
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mirrorax: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (`mirrorax ... | head`): not an error of ours.
        _discard_output()
        sys.stderr.close()
        return 141
    except OSError as error:
        where = error.filename if error.filename is not None else "cannot write the output"
        reason = error.strerror or str(error) or type(error).__name__
        print(f"mirrorax: error: {plain(where)}: {plain(reason)}", file=sys.stderr)
        _discard_output()
        return 1
