"""How a search of `tune` is shown, drawn and converted, and how Optuna's dashboard opens it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import registry
from mirrorax.errors import UserError
from mirrorax.formatting import Frame, counted

if TYPE_CHECKING:
    from mirrorax.tuning.result import TuneResult


def check_new(target: Path) -> None:
    """Refuse a file for Optuna that exists, or that cannot be made."""
    registry.optional_package("optuna")
    if target.exists():
        raise UserError(f"optuna: {str(target)!r} exists; name a new file")
    if not target.parent.is_dir():
        raise UserError(f"optuna: there is no folder {str(target.parent)!r}; make it first")


class SearchView(Frame):
    """The methods of `TuneResult` that people use in Python and in notebooks."""

    def _summary(self: TuneResult) -> tuple[str, list[list[str]]]:  # type: ignore[misc]
        settings = self.settings
        title = (
            f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}: {self.units} "
            f"{self.mean:.3f} on {counted(len(self.scores), 'fresh seed')}, {self.verdict[0]}; "
            f"{self.spent} of {self.budget} runs used"
        )
        rows = [["cell", *self.names, "seeds", "score"]]
        for checked in (self.best, *self.neighbours):
            values = [f"{value:g}" for value in checked.cell.values]
            name = "best" if checked is self.best else "neighbour"
            rows.append([name, *values, str(len(checked.scores)), f"{checked.mean:.3f}"])
        return title, rows

    def _picture(self: TuneResult, ax: Any) -> Any:  # type: ignore[misc]
        return self.plot(ax)

    def plot(self: TuneResult, ax: Any = None) -> Any:  # type: ignore[misc]
        """Draw the runs of the search over its first two values, in the colour of their scores.

        Diverged runs are crosses, the best cell is a star. Returns the axis.
        """
        from mirrorax.figures.style import drawing

        with drawing(ax) as ax:
            return self._draw(ax)

    def _draw(self: TuneResult, ax: Any) -> Any:  # type: ignore[misc]
        from mirrorax.figures.style import COLOURS

        trials = self._columns()[1]
        x, y = (trials[name] for name in (self.names[1], self.names[0]))
        held = [math.isfinite(score) for score in trials["score"]]
        for kept, look in ((True, {"s": 24, "cmap": COLOURS}), (False, {"s": 24, "marker": "x"})):
            chosen = [k for k, each in enumerate(held) if each is kept]
            look["c"] = [trials["score"][k] for k in chosen] if kept else "0.5"
            points = ax.scatter([x[k] for k in chosen], [y[k] for k in chosen], **look)
            if kept:
                ax.figure.colorbar(points, ax=ax, label=self.units)
        best = self.cell
        place = best[self.names[1]], best[self.names[0]]
        ax.plot(*place, "*", color="#D55E00", ms=9, mec="white", label="best on fresh seeds")
        scales = {each.name: each.scale for each in self.record.ranges}
        ax.set_xscale("log" if scales.get(self.names[1]) == "log" else "linear")
        ax.set_yscale("log" if scales.get(self.names[0]) == "log" else "linear")
        ax.set(xlabel=self.names[1], ylabel=self.names[0])
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), borderaxespad=0.2)
        return ax

    def _columns(self: TuneResult) -> tuple[list[str], dict[str, Any]]:  # type: ignore[misc]
        tried = [(n, item) for n, batch in enumerate(self.record.batches) for item in batch]
        cells = [item.run.cell for _, item in tried]
        values = {name: [cell.values[k] for cell in cells] for k, name in enumerate(self.names)}
        columns = {
            "trial": list(range(len(tried))),
            "batch": [number for number, _ in tried],
            "potential": [self.arms[cell.arm].potential for cell in cells],
            "drift": [self.arms[cell.arm].drift for cell in cells],
            **values,
            "seed": [item.run.seed for _, item in tried],
            "score": [item.score for _, item in tried],
        }
        return ["trial"], columns

    def to_optuna(self: TuneResult, path: str | os.PathLike[str]) -> Path:  # type: ignore[misc]
        """Write the search to an SQLite file as a study of Optuna; needs mirrorax[tune].

        `optuna-dashboard sqlite:///FILE` opens it. Every run of the search is a trial; a diverged
        one has failed. The score on fresh seeds and the command are attributes of the study.
        """
        optuna, target = registry.optional_package("optuna"), Path(path)
        check_new(target)
        trials = self._columns()[1]
        scales = {each.name: each.scale for each in self.record.ranges}
        choices = {n: trials[n] for n in ("potential", "drift") if len(set(trials[n])) > 1}
        space: dict[str, Any] = {
            name: optuna.distributions.FloatDistribution(
                min(trials[name]), max(trials[name]), log=scales.get(name) == "log"
            )
            for name in self.names
        }
        for name, values in choices.items():
            space[name] = optuna.distributions.CategoricalDistribution(sorted(set(values)))
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
