"""How a result of training is shown, drawn, converted and saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import registry
from mirrorax.formatting import Shown, counted

if TYPE_CHECKING:
    from mirrorax.training.result import TrainResult


class ResultView(Shown):
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

    def plot(self: TrainResult, ax: Any = None) -> Any:  # type: ignore[misc]
        """Draw the learning curves, a line for each point of the grid; return the axis."""
        from mirrorax.figures.style import axis
        from mirrorax.training.pictures import draw_curves

        return draw_curves(axis(ax), self)

    def to_pandas(self: TrainResult) -> Any:  # type: ignore[misc]
        """Return a data frame with one row per run: its values, score and greedy score."""
        rows = [run.model_dump() for run in self.runs]
        frame = registry.optional_package("pandas").DataFrame(rows)
        columns = {"score": self.normalized, "greedy_score": self.greedy_normalized}
        return frame.assign(**columns, diverged=self.diverged)

    def to_xarray(self: TrainResult) -> Any:  # type: ignore[misc]
        """Return a dataset of scores over the values in which runs differ, and seeds."""
        from mirrorax.training.result import varying

        frame = self.to_pandas()
        index = [*varying(self.runs), "seed"]
        return frame.set_index(index)[["score", "greedy_score", "diverged"]].to_xarray()

    def save(self: TrainResult, folder: str | os.PathLike[str]) -> Path:  # type: ignore[misc]
        """Write the folder that `train --out` writes; `mirrorax.load` gives the result back."""
        from mirrorax.training.folder import save

        return save(folder, self)
