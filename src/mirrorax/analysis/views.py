"""How a landscape is shown, drawn, converted and saved."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from mirrorax.analysis.scores import environment_scores
from mirrorax.errors import UserError
from mirrorax.files import write_file
from mirrorax.formatting import Frame
from mirrorax.runs import arrow
from mirrorax.runs.scoring import ScoredEnvironment
from mirrorax.store import exporting

if TYPE_CHECKING:
    from mirrorax.analysis.landscape import Landscape

#: the entry in a file's metadata that tells a saved landscape from other exports
_MARK = b"mirrorax.landscape"


def _figures(name: str) -> Any:
    """Return a module of the room above, which draws what this room computes."""
    return importlib.import_module(f"mirrorax.figures.{name}")


class LandscapeView(Frame):
    """The methods of `Landscape` that people use in Python and in notebooks."""

    def _summary(self: Landscape) -> tuple[str, list[list[str]]]:  # type: ignore[misc]
        shape = f"{len(self.alphas)} {self.axis} x {len(self.lams)} {self.lam_axis}"
        title = f"{self.label}, {shape}, {int(self.ended.sum()):,} runs with a result"
        rows = [["environment", "cells", "runs", "best mean score"]]
        runs, scores = self.runs(), environment_scores(self.runs())
        for k, spec in enumerate(self.environments):
            count, given = np.isfinite(runs[:, :, k]).sum(), np.isfinite(scores[:, :, k])
            best = f"{scores[:, :, k].max(initial=0.0, where=given):.3f}"
            rows.append([spec.label, str(given.sum()), str(count), best])
        return title, rows

    def _picture(self: Landscape, ax: Any) -> Any:  # type: ignore[misc]
        return self.heatmap(ax)

    def heatmap(self: Landscape, ax: Any = None, environment: str | None = None) -> Any:  # type: ignore[misc]
        """Draw the mean scores of the cells, of all environments or of one; return the axis."""
        figures = _figures("heatmap")
        with _figures("style").drawing(ax) as ax:
            return figures.draw_heat_map(figures.heat_map(self, environment=environment), ax)

    plot = heatmap

    def curves(  # type: ignore[misc]
        self: Landscape, ax: Any = None, *, alpha: float | None = None, lam: float | None = None
    ) -> Any:
        """Draw the learning curves of a cell, a line for each environment; return the axis.

        The best cell unless `alpha` and `lam` (or w and v) are given. The runs must have curves: a
        study asks for them with `eval_every`.
        """
        if alpha is None or lam is None:
            scores = np.nan_to_num(self.runs(), nan=-np.inf).mean(axis=-1)
            i, j = np.unravel_index(scores.mean(axis=-1).argmax(), scores.shape[:2])
            alpha, lam = float(self.alphas[i]), float(self.lams[j])
        figures = _figures("curves")
        names = [environment.label for environment in self.environments]
        curve = partial(figures.learning_curve, self, alpha=alpha, lam=lam)
        shown = [replace(curve(environment=name), label=name) for name in names]
        with _figures("style").drawing(ax) as ax:
            drawn = figures.draw_curves(shown, ax)
            drawn.figure.suptitle(f"{self.label}, {self.axis} {alpha:g}, {self.lam_axis} {lam:g}")
        return drawn

    def _columns(self: Landscape) -> tuple[list[str], dict[str, Any]]:  # type: ignore[misc]
        i, j, k, n = np.nonzero(self.ended)
        index = {
            self.axis: self.alphas[i],
            self.lam_axis: self.lams[j],
            "environment": np.array([spec.label for spec in self.environments])[k],
            "seed": self.seeds[i, j, k, n],
        }
        return list(index), {**index, "score": self.runs()[i, j, k, n]}

    def save(self: Landscape, path: str | os.PathLike[str]) -> Path:  # type: ignore[misc]
        """Write the runs to a file that ends in .parquet; `mirrorax.load` gives the landscape back.

        The file is an export of its runs besides: every reader of results takes it.
        """
        target = Path(path)
        if target.suffix != ".parquet":
            raise UserError(f"path: {str(target)!r} is not allowed: a name that ends in .parquet")
        table = exporting.to_table(self.results.take(np.unique(self.rows[self.rows >= 0])))
        about = {"label": self.label, "environments": [asdict(e) for e in self.environments]}
        mark = {_MARK: json.dumps(about).encode()}
        table = table.replace_schema_metadata({**table.schema.metadata, **mark})
        write_file(target, arrow.encode(table, compact=True), "path")
        return target


def load_landscape(path: Path) -> Landscape | None:
    """Return the landscape of a file, with the label and the bounds that it was saved with.

    None if the file is no saved landscape.
    """
    from mirrorax.analysis.landscape import landscapes

    try:
        mark = (pa.parquet.read_metadata(path).metadata or {}).get(_MARK)
    except (pa.ArrowException, OSError):
        return None
    if mark is None:
        return None
    try:
        about = json.loads(mark)
        label = str(about["label"])
        environments = tuple(ScoredEnvironment(**fields) for fields in about["environments"])
        (item,) = landscapes(exporting.read_export(path, "path"))
        now, then = (
            np.array([(e.return_min, e.return_max) for e in each], float).T[:, :, None, None]
            for each in (item.environments, environments)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"path: {str(path)!r} is not a saved landscape: {error}") from None
    values = {
        name: (getattr(item, name) * (now[1] - now[0]) + now[0] - then[0]) / (then[1] - then[0])
        for name in ("stochastic", "greedy")
        if not np.array_equal(now, then)
    }
    return replace(item, label=label, environments=environments, **values)
