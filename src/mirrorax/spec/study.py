"""A study: a TOML file read into frozen, validated objects, and expanded to runs.

    environments = ["CartPole", { name = "Catch(20x10)", reward_scale = [0.5, 2.0] }]
    pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
    alpha = [0.0, 0.01, 0.1]                 # or { log = [1e-3, 10.0], points = 9, plus = [0.0] }
    lam = [0.0, 0.1, 10.0]
    seeds = 5
    steps = 1_000_000                        # any setting of the trainer

`plugins = ["my_module"]` declares the modules that a study's names come from. Reading a study loads
none of them: they must be loaded already (see `mirrorax.plugins`). `[[blocks]]` tables make a study
of several grids: each inherits what stands above them and changes what it names. `form` declares
the keys, this module reads them.

`expand` makes runs of blocks, as columns: half a million runs are a dozen arrays, not objects. The
order is part of the contract. Blocks in the order of the file; within a block, from the slowest to
the fastest axis:

    environment, reward scale, pair, schedules, alpha (or w), lam (or v), seed

each in the order in which the file lists its values. A run that several blocks declare stands where
it stood first.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from mirrorax import plugins
from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError, shown
from mirrorax.formatting import Shown, counted
from mirrorax.runs.chunk import ids_of
from mirrorax.runs.presets import PRESETS
from mirrorax.runs.settings import (
    LEARNED,
    STATIC,
    TEMPERATURES,
    TRACED,
    RunValues,
    Settings,
    with_preset,
)
from mirrorax.spec import toml
from mirrorax.spec.form import FIXED, TOP, Part, mistake, mistakes

#: A study with more runs than this is taken for a mistake.
MOST_RUNS = 20_000_000
_MOST_SHOWN = 50  # mistakes of one file


@dataclass(frozen=True)
class Block:
    """One grid: every combination of its axes is a run."""

    environments: tuple[tuple[str, tuple[float, ...]], ...]  # (name, reward scales)
    pairs: tuple[tuple[str, str], ...]
    schedules: tuple[tuple[str, str], ...]
    alpha: tuple[float, ...]
    lam: tuple[float, ...]
    w: tuple[float, ...]
    seeds: tuple[int, ...]
    fixed: tuple[tuple[str, Any], ...]  # settings and traced values that differ from the defaults
    v: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many environments with their reward scales, pairs, cells and seeds it has."""
        scales = sum(len(reward_scales) for _, reward_scales in self.environments)
        cells = sum(
            len(self.w if alpha_schedule in LEARNED else self.alpha)
            * len(self.v if lam_schedule in LEARNED else self.lam)
            for alpha_schedule, lam_schedule in self.schedules
        )
        return scales, len(self.pairs), cells, len(self.seeds)

    @property
    def size(self) -> int:
        """How many runs the block has."""
        return math.prod(self.shape)


@dataclass(frozen=True, repr=False)
class Study(Shown):
    """A validated declaration of runs."""

    name: str
    blocks: tuple[Block, ...]
    text: str  # the file as it was written

    @classmethod
    def of(cls, name: str = "study", **fields: Any) -> Study:
        """Return the study of these fields, which are those of a TOML file.

        For example `Study.of(environments=["Catch"], pairs=[["entropy", "kl"]], alpha=[0.01, 0.1],
        lam=[0.1, 1.0], seeds=2, steps=100_000)`. Its text is the file that says the same.
        """
        return parse(toml.written({"name": name, **fields}))

    def _summary(self) -> tuple[str, list[list[str]]]:
        rows = [["environments", "pairs", "cells", "seeds", "runs"]]
        rows += [[f"{n:,}" for n in (*block.shape, block.size)] for block in self.blocks]
        return f"{self.name}, {counted(sum(b.size for b in self.blocks), 'run')}", rows

    @property
    def id(self) -> str:
        """The content hash of the text: two files that differ in a comment are two records."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


def read(path: str | os.PathLike[str]) -> Study:
    """Read a study from a TOML file; raise `UserError` naming every mistake in it."""
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"study: {shown(path)} is not a Study, nor the path of a TOML file")
    file = Path(path)
    return parse(toml.read_text(file, str(file)), name=file.stem, where=str(file))


def parse(text: str, *, name: str = "study", where: str = "study") -> Study:
    """Read a study from the text of a TOML file."""
    document = toml.parse(text, where)
    plugins.expect(document.get("plugins", []), where)
    title = document.get("name", name)
    problems: list[str] = []
    if not isinstance(title, str) or not title.isprintable():
        problems.append(mistake("name", title, "expected a line of text"))
    blocks = _blocks(document, problems)
    if problems:
        unique = list(dict.fromkeys(problems))
        if len(unique) == 1:
            raise UserError(f"{where}: {unique[0]}")
        rest = len(unique) - _MOST_SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        raise UserError(f"{where}: {len(unique)} mistakes:", *unique[:_MOST_SHOWN], *more)
    total = sum(block.size for block in blocks)
    if total > MOST_RUNS:
        raise UserError(f"{where}: {total:,} runs; a study has at most {MOST_RUNS:,}")
    return Study(str(title), tuple(blocks), text)


def _blocks(document: Mapping[str, Any], problems: list[str]) -> list[Block]:
    """Validate the file's top level and each block, then what the two make together."""
    preset = document.get("preset", "default")
    if not isinstance(preset, str) or preset not in PRESETS:
        problems.append(mistake("preset", preset, f"allowed: {', '.join(PRESETS)}"))
    top = _part({key: value for key, value in document.items() if key not in TOP}, "", problems)
    tables = document.get("blocks", [{}])
    if not (tables and isinstance(tables, list) and all(isinstance(t, dict) for t in tables)):
        problems.append(mistake("blocks", tables, "expected at least one [[blocks]] table"))
        return []
    if "blocks" not in document:
        parts = [("", top)]
    else:
        prefixes = [f"blocks[{index}]." for index in range(len(tables))]
        parts = [(p, _part(table, p, problems)) for p, table in zip(prefixes, tables, strict=True)]
        # A key that every block replaces has no effect: most likely a mistake.
        unused = [key for key in top if all(key in own for _, own in parts)]
        if not problems:
            problems += [mistake(k, top[k], "every block replaces it; remove it") for k in unused]
    if problems:  # what the parts make together is only worth checking once each is sound
        return []
    blocks = [_block(prefix, {**top, **own}, own, preset, problems) for prefix, own in parts]
    return [block for block in blocks if block is not None]


def _part(table: Mapping[str, Any], prefix: str, problems: list[str]) -> dict[str, Any]:
    """Validate the keys of one table; return those that it has."""
    part, wrong = mistakes(Part, table, prefix)
    problems.extend(wrong)
    return {} if part is None else {key: getattr(part, key) for key in table}


def _block(
    prefix: str,
    part: Mapping[str, Any],
    own: Mapping[str, Any],
    preset: str,
    problems: list[str],
) -> Block | None:
    """Return a block; `own` is what its table says itself, `part` also what it inherits."""
    before = len(problems)
    for key, example in (
        ("environments", 'environments = ["CartPole"]'),
        ("pairs", 'pairs = [["entropy", "kl"]]'),
        ("seeds", "seeds = 5"),
    ):
        if key not in part:
            problems.append(mistake(prefix + key, None, f"required, e.g. {example}"))
    fixed = {key: part[key] for key in FIXED if key in part}
    names = ("alpha_schedule", "lam_schedule")
    singles: dict[str, str] = {key: fixed.pop(key) for key in names if key in fixed}
    schedules = part.get("schedules", ())
    mine = [key for key in singles if key in own]
    if mine and "schedules" in own:
        problems.append(mistake(prefix + mine[0], own[mine[0]], "give it or schedules, not both"))
    elif mine or not schedules:
        schedules = (tuple(singles.get(name, "constant") for name in names),)
    temperatures: dict[str, tuple[float, ...]] = {}
    both = zip(*schedules, strict=True)
    for name, weight, used in zip(("alpha", "lam"), ("w", "v"), both, strict=True):
        learned = [schedule for schedule in used if schedule in LEARNED]
        constant = [schedule for schedule in used if schedule not in LEARNED]
        elsewhere = f"used by {name}_schedule = {' or '.join(LEARNED)} only"
        for key, users, hint in (
            (name, constant, f"all schedules learn it; give {weight}"),
            (weight, learned, elsewhere),
        ):
            temperatures[key] = part.get(key, ()) if users else ()
            if users and key not in part:
                needed = f"required by {name}_schedule = {users[0]!r}"
                problems.append(mistake(prefix + key, None, needed))
            elif not users and key in own:
                problems.append(mistake(prefix + key, own[key], hint))
    if len(problems) > before:
        return None
    block = Block(
        environments=tuple((entry.name, entry.reward_scale) for entry in part["environments"]),
        pairs=part["pairs"],
        schedules=schedules,
        seeds=part["seeds"],
        fixed=tuple(sorted(with_preset(preset, fixed).items())),
        **temperatures,
    )
    _check_settings(prefix, block, problems)
    return block


def _check_settings(prefix: str, block: Block, problems: list[str]) -> None:
    """Check what the settings must satisfy together (the environment plays no part in it)."""
    fixed = {key: value for key, value in block.fixed if key in STATIC}
    try:
        for potential, drift in block.pairs:
            Settings(
                environment=block.environments[0][0], potential=potential, drift=drift, **fixed
            )
    except UserError as error:
        key, _, reason = str(error).partition(": ")
        problems.append(mistake(prefix + key, fixed.get(key), reason))


# --- its runs -------------------------------------------------------------------------------------

#: a configuration, and the traced columns of one grid of it
_Piece = tuple[int, dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False, repr=False)
class Runs(Shown):
    """Runs as columns. `configuration[i]` says which of `configurations` run i uses."""

    configurations: tuple[Settings, ...]
    configuration: Int[np.ndarray, " runs"]
    values: dict[str, np.ndarray]  # every traced field; NaN where it does not apply
    ids: np.ndarray  # 32-byte strings

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, which: np.ndarray) -> Runs:
        """Return the runs at these positions, or where a mask is true."""
        return Runs(
            self.configurations,
            self.configuration[which],
            {name: column[which] for name, column in self.values.items()},
            self.ids[which],
        )


def expand(study: Study, version: int = ALGORITHM_VERSION) -> Runs:
    """Return all runs of a study, each once, in the documented order.

    `version` is that of the algorithm, which is part of the ids.
    """
    configurations: dict[Settings, int] = {}
    pieces = [piece for block in study.blocks for piece in _pieces(block, configurations)]
    values = {name: np.concatenate([piece[name] for _, piece in pieces]) for name in TRACED}
    sizes = [len(piece["seed"]) for _, piece in pieces]
    known = tuple(configurations)
    configuration = np.repeat(np.array([which for which, _ in pieces], np.int32), sizes)
    ids = ids_of([(each, version) for each in known], configuration, values)
    runs = Runs(known, configuration, values, ids)
    return runs.select(np.sort(np.unique(ids, return_index=True)[1]))


def _pieces(block: Block, configurations: dict[Settings, int]) -> Iterable[_Piece]:
    """Yield (configuration, traced columns) for each static combination of a block."""
    fixed = dict(block.fixed)
    defaults = RunValues(**{name: fixed.pop(name) for name in TRACED if name in fixed})
    scaled = [(name, scale) for name, scales in block.environments for scale in scales]
    for (name, scale), (potential, drift), schedules in itertools.product(
        scaled, block.pairs, block.schedules
    ):
        settings = Settings(
            environment=name,
            potential=potential,
            drift=drift,
            alpha_schedule=schedules[0],
            lam_schedule=schedules[1],
            **fixed,
        )
        which = configurations.setdefault(settings, len(configurations))
        yield which, _columns(block, settings, {**dict(defaults), "reward_scale": scale})


def _columns(
    block: Block, settings: Settings, values: Mapping[str, float | None]
) -> dict[str, np.ndarray]:
    """Return the traced columns of one grid; `values` are those that all its runs share."""
    heat, drift = settings.axes
    grid = np.meshgrid(getattr(block, heat), getattr(block, drift), block.seeds, indexing="ij")
    shared = {**values, **dict.fromkeys(TEMPERATURES)}
    count = grid[0].size
    columns = {name: np.full(count, shared[name], np.float64) for name in TRACED}
    columns |= {heat: grid[0].ravel().astype(np.float64), drift: grid[1].ravel().astype(np.float64)}
    return {**columns, "seed": grid[2].ravel()}
