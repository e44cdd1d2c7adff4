"""The trainer of a search: cells become lanes of one compiled program. Imports jax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from mirrorax.envs.host import Gymnasium
from mirrorax.mdpo.program import Layout, Program, default_lanes, default_layout, make_program
from mirrorax.mdpo.session import SegmentProgress, Session
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import RunValues, Settings, check_values
from mirrorax.tuning.search import RunGroup
from mirrorax.tuning.space import Cell


class LaneTrainer:
    """Trains cells side by side; their runs are the runs `train` and a sweep would make."""

    def __init__(
        self,
        settings: Settings,
        fixed: Mapping[str, Any],
        *,
        lanes: int | None = None,
        layout: Layout | None = None,
        on_segment: Callable[[SegmentProgress], None] | None = None,
    ) -> None:
        self.settings, self.fixed = settings, dict(fixed)
        self.program: Program = make_program(settings)
        self.lanes = lanes or default_lanes()
        self.layout: Layout = layout or default_layout()
        self.updates = settings.updates
        self.bounds = self.program.env.return_bounds
        self.on_segment = on_segment
        self._copied = False

    def start(self, cells: Sequence[Cell], seeds: Sequence[int]) -> RunGroup:
        """Return a group of fresh runs, one per cell and seed."""
        runs = [
            check_values(self.settings, {**self.fixed, **cell, "seed": seed})
            for cell, seed in zip(cells, seeds, strict=True)
        ]
        columns = {name: [getattr(run, name) for run in runs] for name in RunValues.model_fields}
        chunk = make_chunk(self.settings, columns, self.lanes)
        session = Session(chunk, layout=self.layout, program=self.program)
        if not self._copied and isinstance(self.program.env, Gymnasium):
            session.select([0])  # halving copies environments: find out now whether this one can be
            self._copied = True
        return _LaneGroup(self, session)

    def score(self, session: Session) -> Float[np.ndarray, " runs"]:
        """Evaluate runs: the mean normalised return, or the mean return where bounds are unknown.

        A run that diverged has NaN.
        """
        returns, _ = session.evaluate()
        plain = returns.mean(axis=1) / session.chunk.columns["reward_scale"]
        if self.bounds is not None:
            low, high = self.bounds
            plain = (plain - low) / (high - low)
        return np.where(session.diverged_at >= 0, np.nan, plain)


class _LaneGroup:
    def __init__(self, trainer: LaneTrainer, session: Session) -> None:
        self._trainer, self._session = trainer, session

    def train(self, until: int) -> Float[np.ndarray, " runs"]:
        self._session.run(self._trainer.on_segment, until=until)
        return self._trainer.score(self._session)

    def keep(self, rows: Sequence[int]) -> RunGroup:
        return _LaneGroup(self._trainer, self._session.select(list(rows)))
