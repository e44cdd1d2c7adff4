"""What `train` calls between segments: a small contract, TensorBoard, and the progress bar.

A callback is an object with three methods, see `Callback`. It cannot change a run. One that raises
ends the training with an error that names it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from mirrorax.errors import UserError, in_one_line
from mirrorax.runs.settings import GRID

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training.result import TrainResult

METHODS = ("on_start", "on_segment", "on_end")

#: values that may differ from run to run, in the order of a run's name
_NAMED = (*GRID, "seed")


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
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[seen]}"),
            TimeRemainingColumn(),
            console=None if "ipykernel" in sys.modules else Console(file=sys.stderr),
        )
        self._name = settings.environment
        self._task = self._bar.add_task(f"{self._name} (compiling)", total=None, seen="")
        self._bar.start()

    def on_segment(self, progress: SegmentProgress) -> None:
        """Move it on."""
        returns = progress.returns
        self._bar.update(
            self._task,
            description=self._name,
            completed=progress.updates_done,
            total=progress.updates_total,
            seen="" if returns is None else f"return {returns.mean():.4g}",
        )

    def on_end(self, result: TrainResult | None) -> None:
        """Leave it as it is; remove it if there was an error, which is one line."""
        if result is None:
            self._bar.live.transient = True
            self._bar.live.stop()
        else:
            self._bar.stop()


class TensorBoard:
    """Write learning curves for TensorBoard: one folder per run, named by what tells runs apart.

    Every evaluation along the way is one point at the number of environment steps so far:
    `return`, `greedy_return`, and with the setting `eval_every` also the losses, h, D, temperatures
    and gradient norms. `final/...` is the evaluation after training, normalised as well.
    """

    def __init__(self, directory: str | Path) -> None:
        try:
            from tensorboardX import event_file_writer
            from tensorboardX.proto import event_pb2, summary_pb2
        except ImportError:
            raise UserError(
                "tensorboard: the writer is not installed; pip install 'mirrorax[tensorboard]'"
            ) from None
        self._open_file = event_file_writer.EventsWriter
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"tensorboard: cannot make the folder {str(directory)!r}: {error.strerror}"
            ) from None
        self._files: dict[int, Any] = {}
        self._group = -1
        self._seen = -1.0

    def on_start(self, settings: Settings, runs: Sequence[RunValues]) -> None:
        """Name the runs; files are opened with their first point."""
        self._settings, self._names = settings, run_names(runs)
        self._group, self._seen = -1, -1.0

    def on_segment(self, progress: SegmentProgress) -> None:
        """Write the latest evaluation, if there is a new one."""
        if progress.first_run != self._group:
            # At most one group's files are open: a grid may have more runs than there are handles.
            self._close()
            self._group, self._seen = progress.first_run, -1.0
        if not progress.metrics:
            return
        at = float(progress.metrics["update"][0])
        if at <= self._seen:
            return
        self._seen = at
        step = int(at) * self._settings.steps_per_update
        metrics = {name: value for name, value in progress.metrics.items() if name != "update"}
        for row in range(len(progress.metrics["update"])):
            index = progress.first_run + row
            values = {name: float(value[row]) for name, value in metrics.items()}
            self._write(index, step, values)
        for file in self._files.values():
            file.flush()

    def on_end(self, result: TrainResult | None) -> None:
        """Write the final evaluation and close."""
        try:
            if result is not None:
                for index in range(len(self._names)):
                    self._write_final(index, result)
        finally:
            self._close()

    def _write_final(self, index: int, result: TrainResult) -> None:
        values = {
            "final/return": float(result.returns[index].mean()),
            "final/greedy_return": float(result.greedy_returns[index].mean()),
            "final/normalized_return": float(result.normalized[index]),
            "final/diverged": float(result.diverged[index]),
        }
        open_before = index in self._files
        self._write(index, result.settings.updates * result.settings.steps_per_update, values)
        if not open_before:
            self._files.pop(index).close()

    def _write(self, index: int, step: int, values: dict[str, float]) -> None:
        if index not in self._files:
            folder = self.directory / self._names[index]
            folder.mkdir(parents=True, exist_ok=True)
            # The writer names a file after the second; two within one would be the same file.
            suffix = f".{len(list(folder.iterdir()))}"
            self._files[index] = self._open_file(str(folder / "events"), suffix)
        # Losses of a frozen run are not finite; TensorBoard shows those as marks.
        shown = [self._summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
        summary = self._summary(value=shown)
        self._files[index].write_event(
            self._event(wall_time=time.time(), step=step, summary=summary)
        )

    def _close(self) -> None:
        for index in list(self._files):
            self._files.pop(index).close()


def run_names(runs: Sequence[RunValues]) -> list[str]:
    """Name each run by the values in which the runs differ, and by its seed."""
    varying = [
        name for name in _NAMED if name == "seed" or len({getattr(run, name) for run in runs}) > 1
    ]
    return [",".join(f"{name}={_plain(getattr(run, name))}" for name in varying) for run in runs]


def _plain(value: Any) -> str:
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)
