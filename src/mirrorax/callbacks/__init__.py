"""What `train` calls between segments: a small contract, the progress bar, and three loggers.

A callback is an object with three methods, see `Callback`. It cannot change a run. One that raises
ends the training with an error that names it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from mirrorax.callbacks.loggers import Logger, MLflow, TensorBoard, WandB, make_logger, run_names
from mirrorax.errors import UserError, in_one_line
from mirrorax.formatting import notebook_line

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training.result import TrainResult

__all__ = [
    "Callback",
    "CallbackError",
    "Callbacks",
    "Logger",
    "MLflow",
    "ProgressBar",
    "TensorBoard",
    "WandB",
    "make_logger",
    "run_names",
]

METHODS = ("on_start", "on_segment", "on_end")


@runtime_checkable
class Callback(Protocol):
    """What `mirrorax.train(callbacks=[...])` calls."""

    def on_start(self, settings: Settings, runs: Sequence[RunValues]) -> None:
        """Called once, before the first update, with what will be trained."""

    def on_segment(self, progress: SegmentProgress) -> None:
        """Called after every segment, about once a second.

        `progress.metrics` holds the latest point of the learning curves, one number per run of the
        group at hand; `progress.first_run` is the place of that group's first run among all.
        """

    def on_end(self, result: TrainResult | None) -> None:
        """Called with the result, or None where an error or Ctrl-C stopped the training."""


class CallbackError(UserError):
    """A callback raised. The exception it raised is the cause of this one."""


class Callbacks:
    """Several callbacks as one: each is called in turn, even where one of them fails."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        if isinstance(callbacks, str) or not isinstance(callbacks, Sequence):
            raise UserError(f"callbacks: {callbacks!r} is not a list of callbacks")
        for callback in callbacks:
            missing = [name for name in METHODS if not callable(getattr(callback, name, None))]
            if missing or isinstance(callback, type):
                lacks = f"it has no {missing[0]}" if missing else "it is a class, not an object"
                raise UserError(
                    f"callbacks: {callback!r} is not a callback: {lacks}; "
                    f"allowed: objects with {', '.join(METHODS)}"
                )
        self._callbacks = tuple(callbacks)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def __call__(self, method: str, *arguments: Any) -> None:
        """Call a method of each; raise the first error, with the name of its callback."""
        failure: Exception | None = None
        for callback in self._callbacks:
            try:
                getattr(callback, method)(*arguments)
            except UserError as error:
                failure = failure or error  # its text is for the user already
            except Exception as error:
                name = f"{type(callback).__name__}.{method}"
                named = CallbackError(f"callbacks: {name} raised {in_one_line(error)}")
                named.__cause__ = error
                failure = failure or named
        if failure is not None:
            raise failure


class ProgressBar:
    """A progress bar on standard error, or in a notebook, with the mean return so far."""

    def on_start(self, settings: Settings, runs: Sequence[RunValues]) -> None:
        """Show it; until the first segment is done, jax compiles."""
        self._name, self._line = settings.environment, notebook_line()
        if self._line is not None:
            self._line(f"{self._name}: compiling")
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[seen]}"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
        )
        self._task = self._bar.add_task(f"{self._name} (compiling)", total=None, seen="")
        self._bar.start()

    def on_segment(self, progress: SegmentProgress) -> None:
        """Move it on."""
        returns = progress.returns
        seen = "" if returns is None else f"return {returns.mean():.4g}"
        if self._line is not None:
            self._line(f"{self._name}: {progress.fraction:.0%} {seen}")
            return
        self._bar.update(
            self._task,
            description=self._name,
            completed=progress.updates_done,
            total=progress.updates_total,
            seen=seen,
        )

    def on_end(self, result: TrainResult | None) -> None:
        """Leave it as it is; remove it if there was an error, which is one line."""
        if self._line is not None:
            self._line(f"{self._name}: {'stopped' if result is None else 'done'}")
        elif result is None:
            self._bar.live.transient = True
            self._bar.live.stop()
        else:
            self._bar.stop()
