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
    from mirrorax.transfer import answers

    try:
        results = read_results(args.results, "results")
        items = answers.study_landscapes(results)
        print(answers.table([answers.answer(item) for item in items]))
        print()
        if more := answers.further(results):
            print(answers.further_table(more))
            print()
        print(answers.region_table([each for item in items for each in answers.regions(item)]))
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
