"""How a result of training is shown, drawn, converted and saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.formatting import Frame, counted

if TYPE_CHECKING:
    from mirrorax.analysis.landscape import Landscape
    from mirrorax.training.result import TrainResult


class ResultView(Frame):
    """The methods of `TrainResult` that people use in Python and in notebooks."""

    def _summary(self: TrainResult) -> tuple[str, list[list[str]]]:  # type: ignore[misc]
        from mirrorax.training.result import varying

        settings, names = self.settings, varying(self.runs)
        title = (
            f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}: "
            f"{counted(len(self.runs), 'run')}, mean score {self.mean:.3f}"
        )
        rows = [[*names, "seeds", "score", "greedy"]]
        for cell in sorted(self.cells, key=lambda cell: -cell["mean"]):
            values = [f"{cell[name]:g}" for name in names]
            scores = f"{cell['mean']:.3f}", f"{cell['greedy_mean']:.3f}"
            rows.append([*values, str(cell["runs"]), *scores])
        return title, rows

    def _picture(self: TrainResult, ax: Any) -> Any:  # type: ignore[misc]
        if (
            len({(run.alpha, run.w) for run in self.runs})
            > 1
            < len({(run.lam, run.v) for run in self.runs})
        ):
            return self.heatmap(ax)
        return self.plot(ax) if "return" in self.curves else None

    @property
    def landscape(self: TrainResult) -> Landscape:  # type: ignore[misc]
        """The scores over the two temperatures; an error if the runs differ in other values."""
        from mirrorax.analysis.landscape import landscapes
        from mirrorax.errors import UserError
        from mirrorax.runs.results import from_arrow

        items = landscapes(from_arrow(self.outcome.to_arrow()))
        if len(items) > 1:
            raise UserError(f"landscape: the runs are {len(items)} grids of temperatures, not one")
        return items[0]

    def heatmap(self: TrainResult, ax: Any = None) -> Any:  # type: ignore[misc]
        """Draw the mean scores over the two temperatures; return the axis."""
        return self.landscape.heatmap(ax)

    def plot(self: TrainResult, ax: Any = None) -> Any:  # type: ignore[misc]
        """Draw the learning curves, a line for each point of the grid; return the axis."""
        from mirrorax.figures.style import drawing
        from mirrorax.training.pictures import draw_curves

        with drawing(ax) as ax:
            return draw_curves(ax, self)

    def _columns(self: TrainResult) -> tuple[list[str], dict[str, Any]]:  # type: ignore[misc]
        from mirrorax.training.result import varying

        runs = {
            name: [getattr(run, name) for run in self.runs]
            for name in type(self.runs[0]).model_fields
        }
        scores = {"score": self.normalized, "greedy_score": self.greedy_normalized}
        return [*varying(self.runs), "seed"], {**runs, **scores, "diverged": self.diverged}

    def save(self: TrainResult, folder: str | os.PathLike[str]) -> Path:  # type: ignore[misc]
        """Write the folder that `train --out` writes; `mirrorax.load` gives the result back."""
        from mirrorax.training.folder import save

        return save(folder, self)
