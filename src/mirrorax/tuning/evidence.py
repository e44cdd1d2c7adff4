"""What results say about temperatures, as one small table that is shipped with the package.

    python -m mirrorax.tuning.evidence RESULTS                  # rewrite the shipped table
    python -m mirrorax.tuning.evidence STORE --out my.parquet   # one of your own

A row is a cell: one pair (h, D) in one environment at one pair of positive temperatures, with the
mean normalised return of its runs. Only runs with constant temperatures and the regularised Q
count, and of the remaining settings only those that most runs share, which are written down beside
the cells, as is the law by which temperatures grew with the return where rewards were rescaled.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Int

from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import environment_scores
from mirrorax.analysis.temperature import NARROW, THRESHOLDS, Temperature, minimal_temperatures
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.formatting import counted
from mirrorax.runs.results import Results

FILE = "evidence.parquet"
_NOTES = b"mirrorax.evidence"
#: Cells are means over few runs: more digits than this are noise.
_DIGITS = 4
#: A grid without holes stands for a map if it holds at least this share of its cells.
_GRID_SHARE = 0.25

_PAIR = ("potential", "drift")
_TEMPERATURES: tuple[Temperature, ...] = ("alpha", "lam")
_SCHEMA = pa.schema(
    [
        ("potential", pa.string()),
        ("drift", pa.string()),
        ("environment", pa.string()),
        ("reward_scale", pa.float64()),
        ("return_min", pa.float64()),
        ("return_max", pa.float64()),
        ("alpha", pa.float64()),
        ("lam", pa.float64()),
        ("score", pa.float32()),
        ("runs", pa.int32()),
    ]
)


@dataclass(frozen=True, eq=False)
class Map:
    """The scores of one pair in one environment over positive temperatures; NaN without runs."""

    potential: str
    drift: str
    environment: str
    reward_scale: float
    return_min: float
    return_max: float
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    scores: Float[np.ndarray, "alpha lam"]
    runs: Int[np.ndarray, "alpha lam"]

    @property
    def pair(self) -> tuple[str, str]:
        """The regularisers (h, D)."""
        return self.potential, self.drift

    @property
    def family(self) -> str:
        """What other sizes and reward scales of the same environment share."""
        return family(self.environment)

    @property
    def scale(self) -> float:
        """How far apart the returns are that count as 0 and 1."""
        return self.return_max - self.return_min

    @property
    def label(self) -> str:
        """The environment's name, with its reward scale where that is not 1."""
        if self.reward_scale == 1:
            return self.environment
        return f"{self.environment} x {self.reward_scale:g}"

    def regular(self) -> Map:
        """Return the map on a grid of which every cell has runs, if one holds a good part of them.

        Lines that were measured in a few places, such as the strips along which minimal
        temperatures are read, would leave holes between which nothing can be interpolated. The
        emptiest line goes first. Scattered cells, of which no grid can be made, stay as they are.
        """
        held = self.runs > 0
        i, j = np.flatnonzero(held.any(axis=1)), np.flatnonzero(held.any(axis=0))
        every = self._at(i, j)
        while not (here := held[np.ix_(i, j)]).all():
            rows, cols = here.mean(axis=1), here.mean(axis=0)
            if rows.min() <= cols.min():
                i = np.delete(i, rows.argmin())
            else:
                j = np.delete(j, cols.argmin())
        return self._at(i, j) if i.size * j.size >= _GRID_SHARE * held.sum() else every

    def _at(self, i: Int[np.ndarray, " rows"], j: Int[np.ndarray, " cols"]) -> Map:
        return replace(
            self,
            alphas=self.alphas[i],
            lams=self.lams[j],
            scores=self.scores[np.ix_(i, j)],
            runs=self.runs[np.ix_(i, j)],
        )


@dataclass(frozen=True)
class Evidence:
    """All maps, the settings they were measured with, and the law of rescaled rewards."""

    maps: tuple[Map, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: temperature and threshold -> exponent, its 95% interval and the number of points
    law: tuple[Mapping[str, Any], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs there are results for at the usual rewards, in order."""
        return tuple(dict.fromkeys(one.pair for one in self.maps if one.reward_scale == 1))

    @property
    def runs(self) -> int:
        """How many runs stand behind it."""
        return sum(int(one.runs.sum()) for one in self.maps)

    def of(self, pair: tuple[str, str]) -> tuple[Map, ...]:
        """Return the maps of one pair on regular grids, rewards not rescaled."""
        return tuple(
            one.regular() for one in self.maps if one.pair == pair and one.reward_scale == 1
        )


def family(name: str) -> str:
    """Return what environments of several sizes have in common; the name where it is not known."""
    try:
        found = suite.environment(name)
    except UserError:
        return name
    return found.family if found.family in suite.SUITE else name


def read_runs(place: str | os.PathLike[str]) -> Results:
    """Read runs from a store, an exported file, or a folder of exported files."""
    from mirrorax.store import read_results

    return read_results(place, "results")


def gather(table: Results | pa.Table) -> Evidence:
    """Derive the evidence from a table of runs."""
    chosen = [item for item in landscapes(table) if _counts(item)]
    if not chosen:
        raise UserError("results: no runs with constant temperatures and positive alpha and lam")
    usual = _usual(chosen)
    maps = [one for item in chosen if _rest(item) == usual for one in _maps(item) if one.runs.any()]
    if not maps:
        raise UserError("results: no run with positive alpha and lam has a result")
    if all(one.reward_scale != 1 for one in maps):
        raise UserError(
            "results: every run has rescaled rewards; some with reward_scale 1 are needed"
        )
    settings = {n: list(v) if isinstance(v, tuple) else v for n, v in usual}
    laws = [law for item in chosen if _rest(item) == usual for law in _law(item)]
    return Evidence(tuple(maps), settings, tuple(laws))


def _counts(item: Landscape) -> bool:
    settings = item.settings
    constant = all(settings[name] == "constant" for name in ("alpha_schedule", "lam_schedule"))
    regularised = settings["actor_q"] == "regularized"
    positive = bool((item.alphas > 0).any() and (item.lams > 0).any())
    return constant and regularised and positive


def _rest(item: Landscape) -> tuple[tuple[str, Any], ...]:
    """Return the settings apart from the pair."""
    return tuple((name, value) for name, value in item.settings.items() if name not in _PAIR)


def _usual(items: Sequence[Landscape]) -> tuple[tuple[str, Any], ...]:
    count: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for item in items:
        count[_rest(item)] += int(item.counts.sum())
    return count.most_common(1)[0][0]


def _maps(item: Landscape) -> list[Map]:
    scores = environment_scores(item.runs())  # diverged runs count as 0
    i, j = np.flatnonzero(item.alphas > 0), np.flatnonzero(item.lams > 0)
    out = []
    for e, environment in enumerate(item.environments):
        out.append(
            Map(
                potential=str(item.settings["potential"]),
                drift=str(item.settings["drift"]),
                environment=environment.name,
                reward_scale=environment.reward_scale,
                return_min=environment.return_min,
                return_max=environment.return_max,
                alphas=item.alphas[i],
                lams=item.lams[j],
                scores=np.round(scores[np.ix_(i, j)][..., e], _DIGITS),
                runs=item.counts[np.ix_(i, j)][..., e],
            )
        )
    return out


def _law(item: Landscape) -> list[dict[str, Any]]:
    """Fit how the smallest working temperature grows where one environment's rewards were scaled.

    An exponent of 1 is linear growth, which exact mirror descent has.
    """
    rescaled = Counter(each.name for each in item.environments if each.reward_scale != 1)
    out = []
    for name in rescaled:
        mine = item.select([e.label for e in item.environments if e.name == name])
        for temperature in _TEMPERATURES:
            for threshold in THRESHOLDS:
                try:
                    points = minimal_temperatures(mine, temperature, threshold, strip=NARROW)
                    line = power_law(points)
                except UserError:
                    continue  # too few points are bracketed by the grid
                if not np.isfinite([line.low, line.high]).all():
                    continue  # they say nothing
                out.append(
                    {
                        "environment": name,
                        "temperature": temperature,
                        "threshold": threshold,
                        "exponent": round(line.exponent, 3),
                        "low": round(line.low, 3),
                        "high": round(line.high, 3),
                        "points": len(line.x),
                    }
                )
    return out


def write(evidence: Evidence, path: str | os.PathLike[str]) -> None:
    """Write the table; it appears whole or not at all."""
    rows: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for one in evidence.maps:
        for i, j in np.argwhere(one.runs > 0):
            cell = (
                *one.pair,
                one.environment,
                one.reward_scale,
                one.return_min,
                one.return_max,
                float(one.alphas[i]),
                float(one.lams[j]),
                float(one.scores[i, j]),
                int(one.runs[i, j]),
            )
            for name, value in zip(rows, cell, strict=True):
                rows[name].append(value)
    notes = {"settings": dict(evidence.settings), "law": [dict(law) for law in evidence.law]}
    schema = _SCHEMA.with_metadata({_NOTES: json.dumps(notes, sort_keys=True).encode()})
    target = Path(os.fspath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        pq.write_table(
            pa.table(rows, schema=schema),
            temporary,
            compression="zstd",
            write_page_checksum=True,
        )
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"out: {str(target)!r} cannot be written: {error.strerror}") from None


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
    about = json.loads(notes)
    data = {name: table[name].to_numpy(zero_copy_only=False) for name in _SCHEMA.names}
    keys = list(zip(*(data[name] for name in _SCHEMA.names[:6]), strict=True))
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return Evidence(
        tuple(_unpack(key, {n: data[n][rows] for n in data}) for key, rows in groups.items()),
        about["settings"],
        tuple(about["law"]),
    )


def _unpack(key: tuple[Any, ...], data: Mapping[str, np.ndarray]) -> Map:
    alphas, i = np.unique(data["alpha"], return_inverse=True)
    lams, j = np.unique(data["lam"], return_inverse=True)
    scores = np.full((len(alphas), len(lams)), np.nan)
    runs = np.zeros(scores.shape, dtype=np.int64)
    scores[i, j] = np.round(data["score"].astype(np.float64), _DIGITS)
    runs[i, j] = data["runs"]
    potential, drift, environment, reward_scale, return_min, return_max = key
    return Map(
        potential=str(potential),
        drift=str(drift),
        environment=str(environment),
        reward_scale=float(reward_scale),
        return_min=float(return_min),
        return_max=float(return_max),
        alphas=alphas,
        lams=lams,
        scores=scores,
        runs=runs,
    )


@cache
def shipped() -> Evidence:
    """Return the evidence that comes with the package."""
    with resources.as_file(resources.files("mirrorax") / "tuning" / FILE) as path:
        return read(path)


def of_results(place: str | os.PathLike[str] | None) -> Evidence:
    """Return the evidence of a store or of exports, or the shipped one."""
    return shipped() if place is None else gather(read_runs(place))


def describe(evidence: Evidence) -> str:
    """Say in a few lines what the evidence consists of."""
    names = dict.fromkeys(one.environment for one in evidence.maps)
    lines = [
        f"{counted(evidence.runs, 'run')}: {counted(len(evidence.pairs), 'pair')}, "
        f"{counted(len(names), 'environment')} ({', '.join(names)})"
    ]
    for law in evidence.law:
        lines.append(
            f"{law['environment']}, rewards rescaled: the smallest {law['temperature']} that "
            f"reaches {law['threshold']:g} grows with the return to the power "
            f"{law['exponent']:g} [{law['low']:g}, {law['high']:g}] ({law['points']} points)"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Derive the table from results and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m mirrorax.tuning.evidence", description="Derive the table of evidence."
    )
    parser.add_argument("results", help="a store, an exported Parquet file, or a folder of them")
    parser.add_argument("--out", help="the file to write (the shipped one)")
    args = parser.parse_args(argv)
    out = args.out or str(Path(__file__).with_name(FILE))
    try:
        evidence = gather(read_runs(args.results))
        write(evidence, out)
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    print(describe(evidence))
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
