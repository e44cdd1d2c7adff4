"""What results say about temperatures, as one small table that is shipped with the package.

    python -m mirrorax.tuning.evidence RESULTS                   # the shipped table
    python -m mirrorax.tuning.evidence STORE --out my.parquet    # one of your own

A row is a cell: one pair (h, D) in one environment at one pair of positive temperatures, with the
mean normalised return of its runs. Only runs with constant temperatures and the regularised Q
count, and of the remaining settings only those that most runs share; these are stored beside the
cells.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from mirrorax.analysis.landscape import Landscape, full_grid, landscapes
from mirrorax.analysis.scores import environment_scores
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.files import write_file
from mirrorax.formatting import Shown, counted
from mirrorax.runs.results import Results
from mirrorax.store import read_results

_SHIPPED = Path(__file__).with_name("evidence.parquet")
_NOTES = b"mirrorax.evidence"
#: Cells are means over few runs: more digits than this are noise.
_DIGITS = 4
#: A grid without holes stands for a map if it holds at least this share of its cells.
_GRID_SHARE = 0.25

#: The settings of runs that count.
_COUNTED = {
    "algorithm": "off_policy",
    "alpha_schedule": "constant",
    "lam_schedule": "constant",
    "actor_q": "regularized",
}
_KEY = ("potential", "drift", "environment")
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in _KEY]
    + [(name, pa.float64()) for name in ("noise", "alpha", "lam")]
    + [("score", pa.float32()), ("runs", pa.int32())]
)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreMap(Shown):
    """The scores of one pair in one environment over positive temperatures; NaN without runs."""

    potential: str
    drift: str
    environment: str
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    scores: Float[np.ndarray, "alpha lam"]
    runs: Int[np.ndarray, "alpha lam"]
    #: the variance between seeds of a cell, on average over cells; NaN with one seed
    noise: float = math.nan

    @property
    def pair(self) -> tuple[str, str]:
        """The regularisers (h, D)."""
        return self.potential, self.drift

    @property
    def family(self) -> str:
        """What other sizes and reward scales of the same environment share."""
        return family(self.environment)

    def by_cell(self) -> dict[tuple[float, float], float]:
        """Return the score of every measured (alpha, lam)."""
        cells = np.argwhere(np.isfinite(self.scores))
        return {
            (float(self.alphas[i]), float(self.lams[j])): float(self.scores[i, j]) for i, j in cells
        }

    def regular(self) -> ScoreMap:
        """Return the map on a grid of which every cell has runs, if one holds a good part of them.

        Lines that were measured in a few places, such as the strips along which minimal
        temperatures are read, would leave holes between which nothing can be interpolated. The
        emptiest line goes first. Scattered cells, of which no grid can be made, stay as they are.
        """
        held = self.runs > 0
        i, j = full_grid(held)
        if i.sum() * j.sum() < _GRID_SHARE * held.sum():
            i, j = np.asarray(held.any(axis=1)), np.asarray(held.any(axis=0))
        at = np.ix_(i, j)
        return replace(
            self,
            alphas=self.alphas[i],
            lams=self.lams[j],
            scores=self.scores[at],
            runs=self.runs[at],
        )


@dataclass(frozen=True, repr=False)
class Evidence(Shown):
    """All maps, and the settings they were measured with."""

    maps: tuple[ScoreMap, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs there are results for, in order."""
        return tuple(dict.fromkeys(each.pair for each in self.maps))

    @property
    def runs(self) -> int:
        """How many runs stand behind it."""
        return sum(int(each.runs.sum()) for each in self.maps)

    def of(self, pair: tuple[str, str]) -> tuple[ScoreMap, ...]:
        """Return the maps of one pair on regular grids."""
        return tuple(each.regular() for each in self.maps if each.pair == pair)


def family(name: str) -> str:
    """Return what environments of several sizes have in common; the name where it is not known."""
    try:
        spec = suite.environment(name)
    except UserError:
        return name
    return spec.family if spec.family in suite.SUITE else name


def gather(table: Results | pa.Table) -> Evidence:
    """Derive the evidence from a table of runs; those with rescaled rewards do not count."""
    groups: dict[tuple[tuple[str, Any], ...], list[Landscape]] = {}
    for item in landscapes(table):
        counts = all(item.settings[name] == value for name, value in _COUNTED.items())
        if counts and item.cells("positive").any():
            rest = ((name, value) for name, value in item.settings.items() if name not in _KEY)
            groups.setdefault(tuple(rest), []).append(item)
    if not groups:
        raise UserError(
            "results: no off-policy runs with constant temperatures, positive alpha and lam, and "
            "actor_q='regularized'; only such runs count"
        )
    usual, items = max(groups.items(), key=lambda group: sum(i.counts.sum() for i in group[1]))
    maps = tuple(each for item in items for each in _maps(item) if each.runs.any())
    if not maps:
        raise UserError(
            "results: no run with positive alpha and lam, reward_scale 1 and a result is among them"
        )
    return Evidence(maps, {n: list(v) if isinstance(v, tuple) else v for n, v in usual})


def _maps(item: Landscape) -> list[ScoreMap]:
    item = item.crop(item.alphas > 0, item.lams > 0)
    runs = item.runs()  # diverged runs count as 0
    scores = np.round(environment_scores(runs), _DIGITS)
    out = []
    for e, environment in enumerate(item.environments):
        if environment.reward_scale != 1:
            continue
        several = np.isfinite(runs[..., e, :]).sum(axis=-1) > 1
        noise = np.nanvar(runs[..., e, :][several], axis=-1, ddof=1)
        out.append(
            ScoreMap(
                potential=str(item.settings["potential"]),
                drift=str(item.settings["drift"]),
                environment=environment.name,
                alphas=item.alphas,
                lams=item.lams,
                scores=scores[..., e],
                runs=item.counts[..., e],
                noise=float(noise.mean()) if noise.size else math.nan,
            )
        )
    return out


def write(evidence: Evidence, path: str | os.PathLike[str]) -> None:
    """Write the table; it appears whole or not at all."""
    rows = [
        {
            **{name: getattr(each, name) for name in (*_KEY, "noise")},
            "alpha": each.alphas[i],
            "lam": each.lams[j],
            "score": each.scores[i, j],
            "runs": each.runs[i, j],
        }
        for each in evidence.maps
        for i, j in np.argwhere(each.runs > 0)
    ]
    notes = json.dumps({"settings": dict(evidence.settings)}, sort_keys=True).encode()
    table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata({_NOTES: notes}))
    data = pa.BufferOutputStream()
    pq.write_table(table, data, compression="zstd", write_page_checksum=True)
    try:
        write_file(path, data.getvalue().to_pybytes())
    except OSError as error:
        raise UserError(f"out: {str(path)!r} cannot be written: {error.strerror}") from None


def read(path: str | os.PathLike[str]) -> Evidence:
    """Read a table that `write` wrote."""
    try:
        with pq.ParquetFile(os.fspath(path), page_checksum_verification=True) as file:
            table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"evidence: {str(path)!r} cannot be read: {error}") from None
    notes = (table.schema.metadata or {}).get(_NOTES)
    if notes is None or table.schema.names != _SCHEMA.names:
        raise UserError(f"evidence: {str(path)!r} is not a table of evidence")
    groups = groupby(table.to_pylist(), itemgetter(*_KEY))
    maps = tuple(_map_of(key, list(rows)) for key, rows in groups)
    return Evidence(maps, json.loads(notes)["settings"])


def _map_of(key: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]) -> ScoreMap:
    alphas, i = np.unique([row["alpha"] for row in rows], return_inverse=True)
    lams, j = np.unique([row["lam"] for row in rows], return_inverse=True)
    scores = np.full((len(alphas), len(lams)), np.nan)
    runs = np.zeros(scores.shape, dtype=np.int64)
    scores[i, j] = np.round([row["score"] for row in rows], _DIGITS)
    runs[i, j] = [row["runs"] for row in rows]
    return ScoreMap(*key, alphas, lams, scores, runs, rows[0]["noise"])


@cache
def shipped() -> Evidence:
    """Return the evidence that comes with the package."""
    return read(_SHIPPED)


def of_results(place: str | os.PathLike[str] | None) -> Evidence:
    """Return the evidence of a store or of exports, or the shipped one."""
    return shipped() if place is None else gather(read_results(place, "results"))


def describe(evidence: Evidence) -> str:
    """Say in a line what the evidence consists of."""
    names = dict.fromkeys(each.environment for each in evidence.maps)
    length = evidence.settings.get("steps")
    steps = f", {length:,} steps each" if isinstance(length, int) else ""
    pairs = counted(len(evidence.pairs), "pair")
    return f"{counted(evidence.runs, 'run')} of {pairs} in {', '.join(names)}{steps}"


def main(argv: Sequence[str] | None = None) -> int:
    """Derive the table from results and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m mirrorax.tuning.evidence", description="Derive the table of evidence."
    )
    parser.add_argument("results", help="a store, an exported Parquet file, or a folder of them")
    parser.add_argument("--out", help="the file to write (the shipped one)")
    args = parser.parse_args(argv)
    out = args.out or str(_SHIPPED)
    try:
        evidence = of_results(args.results)
        write(evidence, out)
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    print(describe(evidence))
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
