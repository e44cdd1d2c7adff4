"""The flag `--plugin`, the same for every command that looks names up."""

from __future__ import annotations

import argparse


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
    """Import the plugins of the flag."""
    from mirrorax import plugins

    plugins.load_all(args.plugin)
