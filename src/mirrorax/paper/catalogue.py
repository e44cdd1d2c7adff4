"""The paper's studies: which files declare them, and their smaller forms.

`full` is the paper's own grid, seeds and horizon. `reduced` keeps the horizon and takes every
second or fourth value of both temperatures, so that what is done counts towards every larger grid.
`demo` is small enough to watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Literal

from mirrorax.errors import UserError, unknown
from mirrorax.paper import readings
from mirrorax.paper.readings import FIRST
from mirrorax.spec.study import Block, Study, parse
from mirrorax.spec.writing import to_toml

Scale = Literal["demo", "reduced", "full"]
SCALES: tuple[Scale, ...] = ("demo", "reduced", "full")

#: number of grid values -> how far apart they are on the paper's grid of 29
GRIDS = {8: 4, 15: 2, 29: 1}
#: Figure 4 reads alpha's smallest value at the lowest lambdas, and the other way round.
STRIP = 3


@dataclass(frozen=True)
class Entry:
    """One of the paper's studies: `name`.toml beside this module."""

    name: str
    title: str

    @property
    def text(self) -> str:
        """The file as it is."""
        folder = resources.files("mirrorax.paper")
        return (folder / f"{self.name}.toml").read_text(encoding="utf-8")

    @cache  # noqa: B019 - there are as many as ENTRIES, for ever
    def study(self) -> Study:
        """Read the study."""
        return parse(self.text, name=self.name, where=f"{self.name}.toml")

    @property
    def runs(self) -> int:
        """How many runs the paper made of it."""
        return sum(block.size for block in self.study().blocks)


#: In the order in which the reproduction runs them.
ENTRIES = (
    Entry("baseline", "entropy and KL, constant temperatures"),
    Entry("pairs", "the other ten pairs of regularisers"),
    Entry("cartpole", "CartPole with ten other maximum returns"),
    Entry("schedules", "seven further schedules of two pairs"),
    Entry("apmd", "the policy improved on the unregularised Q"),
    Entry("forward_kl", "entropy and forward KL"),
    Entry("catch", "Catch with two and three times its rows and columns"),
)
NAMES = tuple(entry.name for entry in ENTRIES)


def entry(name: str) -> Entry:
    """Return the study of a name."""
    for each in ENTRIES:
        if each.name == name:
            return each
    raise unknown("study", name, NAMES)


def make(
    names: Sequence[str] = (),
    scale: Scale = "full",
    *,
    grid: int | None = None,
    seeds: int | None = None,
    reading: str = FIRST,
) -> Study:
    """Return one study of the named ones, all by default, at a scale and in a reading."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if scale == "demo":
        if names or grid is not None or seeds is not None or reading != FIRST:
            raise UserError(
                "scale: 'demo' is one small study; it takes no names, grid, seeds or reading"
            )
        return _demo()
    chosen = [entry(name) for name in dict.fromkeys(names)] or list(ENTRIES)
    if scale == "full":
        if grid not in (None, 29):
            raise UserError(f"grid: {grid} belongs to the scale 'reduced'; 'full' has 29 values")
        grid = 29
    grid = 8 if grid is None else grid
    if grid not in GRIDS:
        raise UserError(
            f"grid: {grid}; allowed: {', '.join(map(str, GRIDS))} values of each temperature"
        )
    most = 5
    seeds = (2 if scale == "reduced" else most) if seeds is None else seeds
    if not 1 <= seeds <= most:
        raise UserError(f"seeds: {seeds}; the paper has 1 to {most}")
    blocks = [
        smaller
        for each in chosen
        for block in each.study().blocks
        for smaller in _reduced(each.name, block, grid, seeds, strips=scale == "reduced")
    ]
    if scale == "reduced" and grid < 29 and any(each.name == "cartpole" for each in chosen):
        # Figure 4 has the plain CartPole, too.
        plain = replace(entry("baseline").study().blocks[0], environments=(("CartPole", (1.0,)),))
        blocks += _strips(plain, seeds)
    blocks = [readings.reading(reading).apply(block) for block in blocks]
    listed = ", ".join(each.name for each in chosen)
    size = f"{grid} x {grid} cells"
    if scale == "reduced" and grid < 29 and all(each.name == "cartpole" for each in chosen):
        size = "the strips of Figure 4"
    whole = scale == "full" and seeds == most
    label = "paper" if whole else f"paper, {scale}: {size}, {seeds} seed{'s' * (seeds > 1)}"
    label = label if reading == FIRST else f"{label}, reading {reading}"
    name = label if not names else f"{label} ({listed})"
    comment = f"Studies of the paper: {listed}. Reading: {reading}."
    return parse(to_toml(name, blocks, comment), name=name, where=name)


def _reduced(name: str, block: Block, grid: int, seeds: int, *, strips: bool) -> Iterable[Block]:
    if name == "cartpole" and strips and grid < 29:
        return _strips(block, seeds)
    step = GRIDS[grid]
    return [
        replace(
            block,
            alpha=block.alpha[::step],
            lam=block.lam[::step],
            w=block.w[::step],
            seeds=block.seeds[:seeds],
        )
    ]


def strip(block: Block, temperature: Literal["alpha", "lam"]) -> Block:
    """Return the part along which Figure 4 reads a temperature."""
    if temperature == "alpha":
        return replace(block, lam=block.lam[:STRIP])
    return replace(block, alpha=block.alpha[:STRIP])


def _strips(block: Block, seeds: int) -> list[Block]:
    """Return what Figure 4 reads: all alphas at the lowest lambdas and the other way round."""
    few = replace(block, seeds=block.seeds[:seeds])
    return [strip(few, "alpha"), strip(few, "lam")]


def _demo() -> Study:
    text = (resources.files("mirrorax.paper") / "demo.toml").read_text(encoding="utf-8")
    return parse(text, name="demo", where="demo.toml")
