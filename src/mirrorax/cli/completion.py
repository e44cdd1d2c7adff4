"""`mirrorax completion`: shell completion for bash and zsh, made by shtab from the parsers."""

from __future__ import annotations

import argparse
import re
from typing import Any

from mirrorax.cli.flags import Parser

EXAMPLES = """examples:
  mirrorax completion bash > ~/.local/share/bash-completion/completions/mirrorax
  mirrorax completion zsh > ~/.zfunc/_mirrorax     (a folder in your fpath)

Open a new shell afterwards. To try it in this one: eval "$(mirrorax completion bash)"
"""

FLAGS = """
SHELL bash|zsh      the shell to write the script for
"""

#: How the tables of flags name a value that is a path.
_PATHS = ("FILE", "DIR", "PATH", "FOLDER", "RESULTS", "STUDY")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from mirrorax.cli import COMMANDS, parser_of

    whole = Parser(prog="mirrorax")
    whole.add_argument("--version", action="version", help="print the version")
    commands = whole.add_subparsers()
    for name, (_, line) in COMMANDS.items():
        commands.add_parser(name, help=line, parents=[parser_of(name)], add_help=False)
    _mark_paths(whole, shtab.FILE)
    script = shtab.complete(whole, args.shell)
    # Where to put it is said in this command's help.
    print(re.sub(r"# Usage:\n(#.*\n)+", "", script))
    return 0


def _mark_paths(parser: argparse.ArgumentParser, how: Any) -> None:
    """Let paths be completed by names of files, which shtab calls `how`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _mark_paths(below, how)
        elif str(action.metavar).startswith(_PATHS):
            vars(action)["complete"] = how
