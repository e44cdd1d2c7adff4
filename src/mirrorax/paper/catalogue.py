"""The paper's studies: what they vary, and their smaller forms.

`full` is the paper's own grid, seeds and horizon. `reduced` keeps the horizon and takes some values
of both temperatures, nested, so that what is done counts towards every larger grid. `demo` is small
enough to watch. `EXTRAS` are small studies that are not the paper's: they tell readings apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from mirrorax.analysis.temperature import STRIP
from mirrorax.errors import UserError, unknown
from mirrorax.paper import readings
from mirrorax.paper.axes import (
    ALPHAS,
    BASELINE,
    CONSTANT,
    LAMS,
    MAX_RETURNS,
    PAIRS,
    SCALED_CATCH,
    SCHEDULES,
    SEEDS,
    SUITE,
    TSALLIS,
)
from mirrorax.paper.implications import implications
from mirrorax.paper.readings import FIRST
from mirrorax.runs.settings import preset
from mirrorax.spec import toml
from mirrorax.spec.study import Block, Study, parse

Scale = Literal["demo", "reduced", "full"]
SCALES: tuple[Scale, ...] = ("demo", "reduced", "full")

#: number of values of each temperature -> the values of alpha (or w) and of lam
GRIDS: Mapping[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    29: (ALPHAS, LAMS),
    15: (ALPHAS[::2], LAMS[::2]),
    8: (ALPHAS[::4], LAMS[::4]),
    # Positive values of the 8 x 8 grid only: for readings whose runs are expensive.
    6: ((0.004, 0.008, 0.03, 0.07, 0.2, 0.6), (2.5e-4, 0.1, 2.5, 25.0, 1e3, 5e4)),
}
_SUITE = tuple((name, (1.0,)) for name in SUITE)


def _block(
    environments: Iterable[tuple[str, tuple[float, ...]]] = _SUITE,
    pairs: Iterable[tuple[str, str]] = (BASELINE,),
    schedules: Iterable[tuple[str, str]] = (CONSTANT,),
    **fixed: Any,
) -> Block:
    """Return the runs on the paper's whole grid; what is not named is the baseline's."""
    ways = tuple(schedules)
    return Block(
        environments=tuple(environments),
        pairs=tuple(pairs),
        schedules=ways,
        alpha=ALPHAS,
        lam=LAMS,
        w=ALPHAS if any(alpha.startswith("learned") for alpha, _ in ways) else (),
        seeds=tuple(range(SEEDS)),
        fixed=tuple(sorted({**preset("paper"), **fixed}.items())),
    )


@dataclass(frozen=True)
class Entry:
    """One of the paper's studies."""

    name: str
    title: str
    block: Block

    @cache  # noqa: B019 - the entries are never freed
    def study(self) -> Study:
        """Return the study, validated."""
        text = to_toml(f"paper: {self.title}", [self.block])
        return parse(text, name=self.name, where=self.name)

    @property
    def runs(self) -> int:
        """How many runs the paper made of it."""
        return self.block.size


#: In the order in which the reproduction runs them.
ENTRIES = (
    Entry("baseline", "entropy and KL, constant temperatures", _block()),
    Entry(
        "pairs",
        "the other ten pairs of regularisers",
        _block(pairs=(pair for pair in PAIRS.values() if pair != BASELINE)),
    ),
    Entry(
        "cartpole",
        "CartPole with ten other maximum returns",
        _block([("CartPole", tuple(s for s in MAX_RETURNS.values() if s != 1))]),
    ),
    Entry(
        "schedules",
        "seven further schedules of two pairs",
        _block(pairs=(BASELINE, TSALLIS), schedules=(way for way in SCHEDULES if way != CONSTANT)),
    ),
    Entry(
        "apmd",
        "the policy improved on the unregularised Q",
        _block(actor_q="unregularized"),
    ),
    Entry("forward_kl", "entropy and forward KL", _block(pairs=[("entropy", "forward_kl")])),
    Entry(
        "catch",
        "Catch with two and three times its rows and columns",
        _block((name, (1.0,)) for name in SCALED_CATCH),
    ),
)
NAMES = tuple(entry.name for entry in ENTRIES)

#: name -> what it is
EXTRAS = {
    "fingerprint": "the 26 points that tell readings apart, 2 seeds",
    "zero": "the baseline without regularisation, 5 seeds",
    "best": "each pair's best cell in the store, 5 seeds",
    "random": "random cells of the pairs A to D, 5 seeds: Rbst_0.9 without the whole grid",
}


def entry(name: str) -> Entry:
    """Return the study of a name."""
    for each in ENTRIES:
        if each.name == name:
            return each
    raise unknown("study", name, (*NAMES, *EXTRAS))


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
    if seeds is not None and not 1 <= seeds <= SEEDS:
        raise UserError(f"seeds: {seeds}; the paper has 1 to {SEEDS}")
    if any(name in EXTRAS for name in names):
        return _extras(names, reading, grid, seeds)
    chosen = [entry(name) for name in dict.fromkeys(names)] or list(ENTRIES)
    if scale == "full":
        if grid not in (None, 29):
            raise UserError(f"grid: {grid} belongs to the scale 'reduced'; 'full' has 29 values")
        grid = 29
    grid = 8 if grid is None else grid
    if grid not in GRIDS:
        raise UserError(
            f"grid: {grid}; allowed: {', '.join(map(str, sorted(GRIDS)))} values of each "
            "temperature"
        )
    seeds = (2 if scale == "reduced" else SEEDS) if seeds is None else seeds
    blocks = [
        smaller
        for each in chosen
        for block in each.study().blocks
        for smaller in _reduced(each.name, block, grid, seeds, strips=scale == "reduced")
    ]
    if scale == "reduced" and grid < 29 and any(each.name == "cartpole" for each in chosen):
        # Figure 4 has the plain CartPole, too.
        plain = replace(_block(), environments=(("CartPole", (1.0,)),))
        blocks += _strips(plain, seeds)
    blocks = [readings.reading(reading).apply(block) for block in blocks]
    listed = ", ".join(each.name for each in chosen)
    size = f"{grid} x {grid} cells"
    if scale == "reduced" and grid < 29 and all(each.name == "cartpole" for each in chosen):
        size = "the strips of Figure 4"
    whole = scale == "full" and seeds == SEEDS
    label = "paper" if whole else f"paper, {scale}: {size}, {seeds} seed{'s' * (seeds > 1)}"
    label = label if reading == FIRST else f"{label}, reading {reading}"
    name = label if not names else f"{label} ({listed})"
    comment = f"Studies of the paper: {listed}. Reading: {reading}."
    return parse(to_toml(name, blocks, comment), name=name, where=name)


def _extras(names: Sequence[str], reading: str, grid: int | None, seeds: int | None) -> Study:
    """Return the named extra studies as one."""
    if not set(names) <= {"fingerprint", "zero"} or grid is not None:
        raise UserError(f"study: {', '.join(EXTRAS)} take no other study beside them and no grid")
    blocks = []
    if "fingerprint" in names:
        count = tuple(range(2 if seeds is None else seeds))
        blocks += [
            replace(_block(pairs=[each.pair]), alpha=each.alpha, lam=each.lam, seeds=count)
            for each in implications()
        ]
    if "zero" in names:
        count = tuple(range(SEEDS if seeds is None else seeds))
        blocks.append(replace(_block(), alpha=(0.0,), lam=(0.0,), seeds=count))
    blocks = [readings.reading(reading).apply(block) for block in blocks]
    name = f"{', '.join(dict.fromkeys(names))}, reading {reading}"
    return parse(to_toml(name, blocks), name=name, where=name)


def _reduced(name: str, block: Block, grid: int, seeds: int, *, strips: bool) -> Iterable[Block]:
    if name == "cartpole" and strips and grid < 29:
        return _strips(block, seeds)
    alphas, lams = GRIDS[grid]
    return [
        replace(
            block,
            alpha=alphas if block.alpha else (),
            lam=lams,
            w=alphas if block.w else (),
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
    name = "demonstration (5 x 5 cells, 2 seeds, 1/16 of the paper's horizon)"
    comment = (
        "Two pairs of Table 1 on the paper's four environments, a coarse grid of its temperatures\n"
        "and a sixteenth of its horizon. For looking at, not for conclusions: at this length the\n"
        "agents have only begun to learn."
    )
    block = replace(
        _block(pairs=(BASELINE, PAIRS["A"]), steps=1_000_000),
        alpha=(0.0, 0.008, 0.03, 0.2, 1.0),
        lam=(0.0, 0.1, 2.5, 25.0, 1e3),
        seeds=(0, 1),
    )
    return parse(to_toml(name, [block], comment), name="demo", where="demo")


def to_toml(name: str, blocks: Sequence[Block], comment: str = "") -> str:
    """Write blocks as a study, which `parse` reads back. Every value is explicit."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines.append(toml.written({"name": name}))
    for block in blocks:
        environments = [
            each if scales == (1.0,) else {"name": each, "reward_scale": scales}
            for each, scales in block.environments
        ]
        axes = {axis: getattr(block, axis) or None for axis in ("alpha", "w", "lam", "v")}
        grid = {"pairs": block.pairs, "schedules": block.schedules, **axes, "seeds": block.seeds}
        fields = {"environments": environments, **grid, **dict(block.fixed)}
        lines += ["[[blocks]]", toml.written(fields)]
    return "\n".join(lines)
