"""`python -m mirrorax.transfer RESULTS` prints the answers; `--study` prints the study's path."""

from __future__ import annotations

import argparse
import sys
from importlib import resources

from mirrorax.errors import UserError


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
    from mirrorax.store import read_results
    from mirrorax.transfer.answers import answer, region_table, regions, study_landscapes, table

    try:
        items = study_landscapes(read_results(args.results, "results"))
        print(table([answer(item) for item in items]))
        print()
        print(region_table([each for item in items for each in regions(item)]))
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
