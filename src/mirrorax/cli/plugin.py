"""The flag `--plugin`, the same for every command that looks names up."""

from __future__ import annotations

import argparse
import os
import sys


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `--plugin MODULE`, which may be given several times."""
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="import a module that registers names of your own; may be given several times",
    )


def load(args: argparse.Namespace) -> None:
    """Import the plugins of the flag; modules of the current folder too."""
    from mirrorax import plugins

    # At the end: a file of the current folder must not stand in for an installed module.
    if args.plugin and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    plugins.load_all(args.plugin)
