"""A study: a TOML file read into frozen, validated objects.

    environments = ["CartPole", { name = "Catch(20x10)", reward_scale = [0.5, 2.0] }]
    pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
    alpha = [0.0, 0.01, 0.1]                 # or { log = [1e-3, 10.0], points = 9, plus = [0.0] }
    lam = [0.0, 0.1, 10.0]
    seeds = 5
    steps = 1_000_000                        # any setting of the trainer

`plugins = ["my_module"]` declares the modules that a study's names come from. Reading a study loads
none of them: they must be loaded already (see `mirrorax.plugins`). `[[blocks]]` tables make a study
of several grids: each inherits what stands above them and changes what it names. `form` declares
the keys, this module reads them, `expand` makes runs of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorax import plugins
from mirrorax.errors import UserError
from mirrorax.runs.presets import PRESETS
from mirrorax.runs.settings import LEARNED, STATIC, Settings, as_float32, with_preset
from mirrorax.spec import toml
from mirrorax.spec.form import FIXED, TOP, Part, Problems, mistakes

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
    def size(self) -> int:
        """How many runs the block has."""
        scales = sum(len(reward_scales) for _, reward_scales in self.environments)
        cells = sum(
            len(self.w if alpha_schedule in LEARNED else self.alpha)
            * len(self.v if lam_schedule in LEARNED else self.lam)
            for alpha_schedule, lam_schedule in self.schedules
        )
        return scales * len(self.pairs) * cells * len(self.seeds)


@dataclass(frozen=True)
class Study:
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

    @property
    def id(self) -> str:
        """The content hash of the text: two files that differ in a comment are two records."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


def read(path: str | Path) -> Study:
    """Read a study from a TOML file; raise `UserError` naming every mistake in it."""
    file = Path(path)
    return parse(toml.read_text(file, str(file)), name=file.stem, where=str(file))


def parse(text: str, *, name: str = "study", where: str = "study") -> Study:
    """Read a study from the text of a TOML file."""
    document = toml.parse(text, where)
    plugins.expect(document.get("plugins", []), where)
    problems = Problems()
    blocks = _blocks(document, problems)
    title = document.get("name", name)
    if not isinstance(title, str) or not title.isprintable():
        problems.add("name", title, "expected a line of text")
    if problems:
        raise _report(where, problems)
    study = Study(str(title), tuple(blocks), text)
    total = sum(block.size for block in study.blocks)
    if total > MOST_RUNS:
        raise UserError(f"{where}: {total:,} runs; a study has at most {MOST_RUNS:,}")
    return study


def _report(where: str, problems: Problems) -> UserError:
    unique = list(dict.fromkeys(str(mistake) for mistake in problems))
    if len(unique) == 1:
        return UserError(f"{where}: {unique[0]}")
    rest = len(unique) - _MOST_SHOWN
    more = [f"and {rest} more"] if rest > 0 else []
    return UserError(f"{where}: {len(unique)} mistakes:", *unique[:_MOST_SHOWN], *more)


def _blocks(document: Mapping[str, Any], problems: Problems) -> list[Block]:
    """Validate the file's top level and each block, then what the two make together."""
    top = {key: value for key, value in document.items() if key not in TOP}
    preset = document.get("preset", "default")
    if not isinstance(preset, str) or preset not in PRESETS:
        problems.add("preset", preset, f"allowed: {', '.join(PRESETS)}")
    top_part = _part(top, "", problems)

    tables = document.get("blocks", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        problems.add("blocks", tables, "expected [[blocks]] tables")
        tables = []
    elif "blocks" in document and not tables:
        problems.add("blocks", tables, "expected at least one [[blocks]] table")
    named: list[tuple[str, dict[str, Any]]] = []
    for index, table in enumerate(tables):
        prefix = f"blocks[{index}]."
        named.append((prefix, _part(table, prefix, problems)))
    if problems:  # what the parts make together is only worth checking once each is sound
        return []
    merged = [(prefix, {**top_part, **part}, part) for prefix, part in named]
    if not named:
        merged = [("", top_part, top_part)]
    blocks = [_block(prefix, part, own, preset, problems) for prefix, part, own in merged]
    if named and not problems:
        _refuse_unused(top_part, merged, problems)
    return [block for block in blocks if block is not None]


def _part(table: Mapping[str, Any], prefix: str, problems: Problems) -> dict[str, Any]:
    """Validate the keys of one table; return those that it has."""
    part, wrong = mistakes(Part, table, prefix)
    problems.extend(wrong)
    return {} if part is None else {key: getattr(part, key) for key in table}


def _block(
    prefix: str,
    part: Mapping[str, Any],
    own: Mapping[str, Any],
    preset: str,
    problems: Problems,
) -> Block | None:
    before = len(problems)
    for key, example in (
        ("environments", 'environments = ["CartPole"]'),
        ("pairs", 'pairs = [["entropy", "kl"]]'),
        ("seeds", "seeds = 5"),
    ):
        if key not in part:
            problems.add(prefix + key, None, f"required, e.g. {example}")
    schedules = _schedules(prefix, part, own, problems)
    alphas, lams = zip(*schedules, strict=True)
    alpha, w = _temperatures(prefix, part, own, ("alpha", "w"), alphas, problems)
    lam, v = _temperatures(prefix, part, own, ("lam", "v"), lams, problems)
    if len(problems) > before:
        return None
    fixed = with_preset(preset, {key: part[key] for key in FIXED if key in part})
    for key in ("alpha_schedule", "lam_schedule"):
        fixed.pop(key, None)
    block = Block(
        environments=tuple((entry.name, entry.reward_scale) for entry in part["environments"]),
        pairs=part["pairs"],
        schedules=schedules,
        alpha=alpha,
        lam=lam,
        w=w,
        v=v,
        seeds=part["seeds"],
        fixed=tuple(sorted(fixed.items())),
    )
    _refuse_repeated(prefix, block, problems)
    _check_settings(prefix, block, problems)
    return block


def _temperatures(
    prefix: str,
    part: Mapping[str, Any],
    own: Mapping[str, Any],
    names: tuple[str, str],
    schedules: Sequence[str],
    problems: Problems,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values of a temperature and of the weight of its target, as schedules need."""
    name, weight = names
    learned = [schedule for schedule in schedules if schedule in LEARNED]
    constant = [schedule for schedule in schedules if schedule not in LEARNED]
    for key, users in ((name, constant), (weight, learned)):
        if users and key not in part:
            problems.add(prefix + key, None, f"required by {name}_schedule = {users[0]!r}")
    if not constant and name in own:
        problems.add(prefix + name, own[name], f"all schedules learn it; give {weight}")
    if not learned and weight in own:
        wanted = " or ".join(LEARNED)
        problems.add(prefix + weight, own[weight], f"used by {name}_schedule = {wanted} only")
    return (
        part.get(name, ()) if constant else (),
        part.get(weight, ()) if learned else (),
    )


def _schedules(
    prefix: str, part: Mapping[str, Any], own: Mapping[str, Any], problems: Problems
) -> tuple[tuple[str, str], ...]:
    """Read `schedules`, or the one pair of `alpha_schedule` and `lam_schedule`."""
    singles = [key for key in ("alpha_schedule", "lam_schedule") if key in part]
    if "schedules" in part and ("schedules" in own or not any(key in own for key in singles)):
        if singles and "schedules" in own and any(key in own for key in singles):
            problems.add(prefix + singles[0], part[singles[0]], "give it or schedules, not both")
        listed: tuple[tuple[str, str], ...] = part["schedules"]
        return listed
    return ((part.get("alpha_schedule", "constant"), part.get("lam_schedule", "constant")),)


def _refuse_repeated(prefix: str, block: Block, problems: Problems) -> None:
    """Refuse what would make a run twice within one grid."""
    scaled = [(name, as_float32(scale)) for name, scales in block.environments for scale in scales]
    for key, entries in (
        ("environments", scaled),
        ("pairs", block.pairs),
        ("schedules", block.schedules),
    ):
        again = [entry for i, entry in enumerate(entries) if entry in entries[:i]]
        if again:
            problems.add(prefix + key, again[0], "given twice; each once")


def _check_settings(prefix: str, block: Block, problems: Problems) -> None:
    """Check what the settings must satisfy together (the environment plays no part in it)."""
    fixed = {key: value for key, value in block.fixed if key in STATIC}
    try:
        for potential, drift in block.pairs:
            Settings(
                environment=block.environments[0][0], potential=potential, drift=drift, **fixed
            )
    except UserError as error:
        key, _, reason = str(error).partition(": ")
        problems.add(prefix + key, fixed.get(key), reason)


def _refuse_unused(
    top: Mapping[str, Any],
    merged: list[tuple[str, dict[str, Any], dict[str, Any]]],
    problems: Problems,
) -> None:
    """A key above the blocks that every block replaces has no effect: most likely a mistake."""
    for key in top:
        if all(key in own for _, _, own in merged):
            problems.add(key, top[key], "every block replaces it; remove it")
