"""What a search found, and what may be said of it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mirrorax import registry
from mirrorax.analysis.scores import AGREE, UNIT, mean_interval, seeds_in_words
from mirrorax.errors import UserError
from mirrorax.formatting import Frame, as_flags, counted
from mirrorax.runs.settings import Settings, changed
from mirrorax.training.result import finite
from mirrorax.tuning.propose import NEAR_RANDOM, CellScores, Record
from mirrorax.tuning.space import Cell, Specification

#: Bounds of returns that are not known.
_ANY = (-math.inf, math.inf)

Verdict = Literal["nothing", "unsafe", "unsettled", "forgiving", "sensitive"]


@dataclass(frozen=True, repr=False)
class TuneResult(Frame):
    """The best cell, its scores on fresh seeds, the scores of its neighbours, and the search."""

    specification: Specification
    record: Record

    @property
    def best(self) -> CellScores:
        """The best cell with its fresh runs."""
        assert self.record.best is not None
        return self.record.best

    @property
    def settings(self) -> Settings:
        """The settings of the best cell."""
        return self.specification.arms[self.best.cell.arm]

    @property
    def cell(self) -> dict[str, float]:
        """The values of the best cell."""
        return self.values(self.best.cell)

    def values(self, cell: Cell) -> dict[str, float]:
        """Return the values of a cell by their names."""
        return dict(zip(self.specification.names, cell.values, strict=True))

    @property
    def units(self) -> str:
        """What scores are: "normalised return", or "return" where bounds are not known."""
        return "return" if self.specification.best is None else "normalised return"

    @property
    def scores(self) -> tuple[float, ...]:
        """The scores of the fresh seeds; NaN is one that diverged."""
        return self.best.scores

    @property
    def mean(self) -> float:
        """The mean score of the best cell over the fresh seeds that did not diverge."""
        return self.best.mean

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of that mean; None for fewer than three seeds or if they agree."""
        return mean_interval(np.array(self.best.whole), *self._scale)

    @property
    def seeds_in_words(self) -> str:
        """That interval as text, or what stands in its place."""
        bounds, agree = self._scale
        return seeds_in_words(np.array([self.best.whole]), bounds, agree=agree)

    @property
    def _scale(self) -> tuple[tuple[float, float], float]:
        """The bounds of scores, and how far apart seeds are that agree."""
        return (_ANY, 0.0) if self.specification.best is None else (UNIT, AGREE)

    @property
    def random(self) -> float | None:
        """The score of random play."""
        return self.specification.random

    @property
    def better_than_random(self) -> bool:
        """Whether the fresh seeds are better than random play.

        Their mean must be a tenth of the way from random play to the best possible score, and the
        lower end of their interval above random play. Where the best possible score is not known,
        the second alone counts.
        """
        if math.isnan(self.mean):
            return False
        random, best = self.random, self.specification.best
        if random is None:
            return True
        low = self.interval[0] if self.interval else min(self.best.whole)
        margin = 0.0 if best is None else NEAR_RANDOM * (best - random)
        return self.mean > random + margin and low > random

    @property
    def spent(self) -> int:
        """How many runs were used."""
        return self.record.spent

    @property
    def largest_drop(self) -> float:
        """How much the worst neighbour is below the best cell; infinite if it diverged."""
        return self.mean - min(map(_worth, self.record.neighbours))

    @property
    def largest_rise(self) -> float:
        """How much the best neighbour is above the best cell."""
        return max(map(_worth, self.record.neighbours)) - self.mean

    @property
    def verdict(self) -> tuple[Verdict, str]:
        """What the fresh seeds of the best cell and its neighbours show, as a word and in words."""
        if not self.better_than_random:
            shown = "" if self.random is None else f" ({self.random:.3f})"
            return "nothing", (
                f"nothing better than random{shown} was found; more --steps, a larger --budget or "
                "other settings may help"
            )
        whole = self.best.whole or (math.nan,)
        low, high = self.interval or (min(whole), max(whole))
        around = self.record.neighbours
        lost = {"here": self.best.diverged, "close by": any(cell.diverged for cell in around)}
        if any(lost.values()):
            where = " and ".join(place for place, diverged in lost.items() if diverged)
            return "unsafe", f"not safe: runs diverged {where}; lower learning rates may help"
        # A tenth of the range of scores; where the range is not known, the spread of the seeds.
        tolerance = high - low if self.specification.best is None else 0.1
        fewest = min(len(cell.scores) for cell in around)
        if self.largest_rise > tolerance and self.mean + self.largest_rise > high:
            few = f" (by {counted(fewest, 'seed')}: it may be luck)" if fewest < 5 else ""
            return "unsettled", (
                f"not settled: a neighbour is {self.largest_rise:.3f} above{few}; "
                "use a larger --budget or more --steps"
            )
        if self.largest_drop <= tolerance:
            text = f"a forgiving place: no neighbour is more than {tolerance:.3g} below"
            return "forgiving", text
        return "sensitive", f"sensitive: a neighbour is {self.largest_drop:.3f} below"

    @property
    def command(self) -> str:
        """The command that trains the best cell."""
        settings = self.settings
        names = {"env": settings.environment, "potential": settings.potential}
        parts = ["mirrorax train", *as_flags({**names, "drift": settings.drift, **self.cell})]
        more = changed(settings.model_dump(exclude={"potential", "drift"}))
        parts += as_flags({**more, **self.specification.fixed})
        parts += [f"--plugin {plugin.partition('==')[0]}" for plugin in settings.plugins]
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        trials = self._columns()[1]
        return {
            "cell": self.cell,
            "units": self.units,
            "mean": self.mean,
            "interval": self.interval,
            "random": self.random,
            "verdict": self.verdict[0],
            "scores": list(self.scores),
            "neighbours": [self._row(cell) for cell in self.record.neighbours],
            "budget": self.specification.budget.total,
            "spent": self.spent,
            "candidates": [self._row(cell) for cell in self.record.candidates],
            "trials": [
                dict(zip(trials, row, strict=True)) for row in zip(*trials.values(), strict=True)
            ],
            "ranges": {each.name: [each.low, each.high] for each in self.record.ranges},
            "arms": [each.model_dump(mode="json") for each in self.specification.arms],
            "settings": self.settings.model_dump(mode="json"),
            "command": self.command,
        }

    def _row(self, checked: CellScores) -> dict[str, Any]:
        runs = {"runs": len(checked.scores), "diverged": checked.diverged}
        return {**self.values(checked.cell), "mean": checked.mean, **runs}

    def to_json(self) -> str:
        """Return `to_dict` as one line; a number that is not finite becomes null."""
        return json.dumps(finite(self.to_dict()), allow_nan=False)

    def _summary(self) -> tuple[str, list[list[str]]]:
        settings = self.settings
        verdict = self.verdict[0] if self.better_than_random else "not better than random play"
        title = (
            f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}: {self.units} "
            f"{self.mean:.3f} on {counted(len(self.scores), 'fresh seed')}, {verdict}; "
            f"{self.spent} of {self.specification.budget.total} runs used"
        )
        return title, self.close_by

    @property
    def close_by(self) -> list[list[str]]:
        """The best cell and its neighbours on fresh seeds, as rows of text below their head."""
        rows = [["cell", *self.cell, "seeds", "diverged", "score", "difference"]]
        for checked in (self.best, *self.record.neighbours):
            values = [f"{value:g}" for value in checked.cell.values]
            counts = [str(len(checked.scores)), str(checked.diverged)]
            apart = checked.mean - self.mean
            difference = "" if checked is self.best or math.isnan(apart) else f"{apart:+.3f}"
            name = "best" if checked is self.best else "neighbour"
            rows.append([name, *values, *counts, f"{checked.mean:.3f}", difference])
        return rows

    def _picture(self, ax: Any) -> Any:
        return self.plot(ax)

    def plot(self, ax: Any = None) -> Any:
        """Draw the runs of the search over its first two values, in the colour of their scores.

        Diverged runs are crosses, the best cell is a star. Returns the axis.
        """
        from mirrorax.figures.style import COLOURS, drawing

        trials = self._columns()[1]
        up, right = self.specification.ranges[:2]
        x, y, scores = (np.array(trials[name]) for name in (right.name, up.name, "score"))
        held = np.isfinite(scores)
        with drawing(ax) as ax:
            points = ax.scatter(x[held], y[held], s=24, cmap=COLOURS, c=scores[held])
            ax.figure.colorbar(points, ax=ax, label=self.units)
            ax.scatter(x[~held], y[~held], s=24, marker="x", c="0.5")
            place = self.cell[right.name], self.cell[up.name]
            ax.plot(*place, "*", color="#D55E00", ms=12, mec="white", label="best on fresh seeds")
            ax.set_xscale("log" if right.scale == "log" else "linear")
            ax.set_yscale("log" if up.scale == "log" else "linear")
            ax.set(xlabel=right.name, ylabel=up.name)
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
            return ax

    def _columns(self) -> tuple[list[str], dict[str, Any]]:
        batches = self.record.batches
        runs = [item.run for item in self.record.trials]
        arms = [self.specification.arms[run.cell.arm] for run in runs]
        values = zip(*(run.cell.values for run in runs), strict=True)
        columns = {
            "trial": list(range(len(runs))),
            "batch": [number for number, batch in enumerate(batches) for _ in batch],
            "arm": [run.cell.arm for run in runs],
            "potential": [settings.potential for settings in arms],
            "drift": [settings.drift for settings in arms],
            **dict(zip(self.cell, map(list, values), strict=True)),
            "seed": [run.seed for run in runs],
            "score": [item.score for item in self.record.trials],
        }
        return ["trial"], columns

    def to_optuna(self, path: str | os.PathLike[str]) -> Path:
        """Write the search to an SQLite file as a study of Optuna; needs mirrorax[tune].

        `optuna-dashboard sqlite:///FILE` opens it. Every run of the search is a trial; a diverged
        one has failed. The score on fresh seeds and the command are attributes of the study.
        """
        optuna, target = registry.optional_package("optuna"), Path(path)
        check_new(target)
        trials = self._columns()[1]
        space: dict[str, Any] = {
            each.name: optuna.distributions.FloatDistribution(
                min(trials[each.name]), max(trials[each.name]), log=each.scale == "log"
            )
            for each in self.specification.ranges
        }
        for name in ("potential", "drift"):
            if len(names := sorted(set(trials[name]))) > 1:
                space[name] = optuna.distributions.CategoricalDistribution(names)
        level = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=f"sqlite:///{target}",
                study_name=f"{self.settings.environment}, {self.spent} runs",
                direction="maximize",
            )
        finally:
            optuna.logging.set_verbosity(level)
        for k, score in enumerate(trials["score"]):
            held = math.isfinite(score)
            state = optuna.trial.TrialState.COMPLETE if held else optuna.trial.TrialState.FAIL
            study.add_trial(
                optuna.trial.create_trial(
                    state=state,
                    value=score if held else None,
                    params={name: trials[name][k] for name in space},
                    distributions=space,
                    user_attrs={name: trials[name][k] for name in ("seed", "batch")},
                )
            )
        about = {"score on fresh seeds": self.mean, "verdict": self.verdict[1]}
        for name, value in {**about, "command": self.command}.items():
            study.set_user_attr(name, value)
        return target


def _worth(checked: CellScores) -> float:
    return checked.mean if checked.whole else -math.inf


def check_new(target: Path) -> None:
    """Refuse a file for Optuna that exists, or that cannot be made."""
    registry.optional_package("optuna")
    if target.exists():
        raise UserError(f"optuna: {str(target)!r} exists; name a new file")
    if not target.parent.is_dir():
        raise UserError(f"optuna: there is no folder {str(target.parent)!r}; make it first")
