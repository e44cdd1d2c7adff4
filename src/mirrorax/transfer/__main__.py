"""`python -m mirrorax.transfer STORE` prints the answers; `--study` prints the study's path."""

from __future__ import annotations

import argparse
import sys
from importlib import resources


def main(argv: list[str] | None = None) -> int:
    """Print the answers, or where the study is."""
    parser = argparse.ArgumentParser(prog="python -m mirrorax.transfer")
    parser.add_argument("results", nargs="?", help="the store of the study, or its exports")
    parser.add_argument("--study", action="store_true", help="print the path of the study")
    args = parser.parse_args(argv)
    if args.study:
        print(resources.files("mirrorax") / "transfer" / "transfer.toml")
        return 0
    if args.results is None:
        parser.error("RESULTS or --study is needed")
    from mirrorax.analysis.landscape import landscapes
    from mirrorax.store import read_results
    from mirrorax.transfer.answers import answer, table

    print(table([answer(item) for item in landscapes(read_results(args.results))]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
