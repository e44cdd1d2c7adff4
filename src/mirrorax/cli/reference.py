"""The flag `--reference`: values from elsewhere to stand beside those of a store."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrorax.analysis.reference import Reference


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Declare `--reference`."""
    parser.add_argument(
        "--reference",
        metavar="FILE",
        help="a TOML file with values of Rbst to compare with, or `paper`: its Table 1",
    )


def load(args: argparse.Namespace) -> Reference | None:
    """Return the reference that was asked for, if any."""
    if args.reference is None:
        return None
    if args.reference == "paper":
        from mirrorax.paper.table_1 import reference

        return reference()
    from mirrorax.analysis.reference import read_reference

    return read_reference(args.reference)
