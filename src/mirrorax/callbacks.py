"""What `train` calls between segments: a small contract, the progress bar, and three loggers.

A callback is an object with three methods, see `Callback`. It cannot change a run. One that raises
ends the training with an error that names it. Loggers write for TensorBoard, Weights & Biases and
MLflow.
"""

from __future__ import annotations

import abc
import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mirrorax.errors import UserError, in_one_line, unknown
from mirrorax.formatting import notebook_line
from mirrorax.registry import optional_package
from mirrorax.runs.settings import GRID

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress
    from mirrorax.runs.results import Results
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

    def __init__(self, callbacks: Sequence[Callback], *more: Callback) -> None:
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
        self._callbacks = (*callbacks, *more)

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


class Record(NamedTuple):
    """What a logger keeps of one run, or of one chunk of a sweep."""

    #: add the values of a step
    write: Callable[[int, Mapping[str, float]], None]
    close: Callable[[], object]
    #: let go of what is scarce; the next value opens it again
    pause: Callable[[], object] = lambda: None


class Logger(abc.ABC):
    """A callback that writes for a viewer: a record per run, named by what tells runs apart.

    Every evaluation along the way is one point at the number of environment steps so far:
    `return`, `greedy_return`, and with the setting `eval_every` also the losses, h, D, temperatures
    and gradient norms. `final/...` is the evaluation after training, normalised as well.

    Of a sweep there is a record per chunk (runs with the same settings) with a point per run: its
    temperatures, seed and scores.
    """

    @abc.abstractmethod
    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Begin a record; `group` and `config` say what it is of."""

    def on_start(self, settings: Settings, runs: Sequence[RunValues]) -> None:
        """Name the runs; records are opened with their first point."""
        self._settings, self._runs, self._names = settings, runs, run_names(runs)
        self._records: dict[int, Record] = {}
        self._first_run, self._seen = -1, -1.0

    def on_segment(self, progress: SegmentProgress) -> None:
        """Write the latest evaluation, if there is a new one."""
        if progress.first_run != self._first_run:
            # A grid may have more runs than there are handles of files.
            for record in self._records.values():
                record.pause()
            self._first_run, self._seen = progress.first_run, -1.0
        if not progress.metrics:
            return
        at = float(progress.metrics["update"][0])
        if at <= self._seen:
            return
        self._seen = at
        step = int(at) * self._settings.steps_per_update
        metrics = {name: value for name, value in progress.metrics.items() if name != "update"}
        for row in range(len(progress.metrics["update"])):
            values = {name: float(value[row]) for name, value in metrics.items()}
            self._record(progress.first_run + row).write(step, values)

    def on_end(self, result: TrainResult | None) -> None:
        """Write the final evaluation and close."""
        try:
            for index in range(len(self._names) if result is not None else 0):
                self._write_final(index, result)
        finally:
            for record in self._records.values():
                record.close()

    def _record(self, index: int) -> Record:
        if index not in self._records:
            config = {**self._settings.model_dump(mode="json"), **self._runs[index].model_dump()}
            name, group = self._names[index], group_name(self._settings)
            self._records[index] = self.open(name, group, config)
        return self._records[index]

    def _write_final(self, index: int, result: Any) -> None:
        values = {
            "final/return": float(result.returns[index].mean()),
            "final/greedy_return": float(result.greedy_returns[index].mean()),
            "final/normalized_return": float(result.normalized[index]),
            "final/diverged": float(result.diverged[index]),
        }
        record = self._record(index)
        record.write(result.settings.updates * result.settings.steps_per_update, values)
        record.pause()

    def log_chunk(self, name: str, results: Results) -> None:
        """Write the record of a chunk of a sweep: a point per run, in the order of the chunk."""
        settings = results.configurations[0].settings
        record = self.open(name, group_name(settings), settings.model_dump(mode="json"))
        table = results.table(["score", "greedy_score", *_NAMED])
        try:
            for step, row in enumerate(table.to_pylist()):
                record.write(step, {n: float(x) for n, x in row.items() if x is not None})
        finally:
            record.close()


class TensorBoard(Logger):
    """Write for TensorBoard: one folder per record (needs `mirrorax[tensorboard]`)."""

    def __init__(self, directory: str | Path = "logs") -> None:
        optional_package("tensorboardX", "'mirrorax[tensorboard]'")
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"tensorboard: cannot make the folder {str(directory)!r}: {error.strerror}"
            ) from None

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Name the folder; its file is opened with the first point."""
        events = _EventFile(self.directory / name)
        return Record(events.write, events.close, events.close)


class _EventFile:
    """The points of one folder of TensorBoard; a file for each time that it was opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: Any = None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write one event to the disk."""
        from tensorboardX import event_file_writer
        from tensorboardX.proto import event_pb2, summary_pb2

        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            # The writer names a file after the second; two within one would be the same file.
            suffix = f".{len(list(self._folder.iterdir()))}"
            self._file = event_file_writer.EventsWriter(str(self._folder / "events"), suffix)
        # Losses of a frozen run are not finite; TensorBoard shows those as marks.
        shown = [summary_pb2.Summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
        summary = summary_pb2.Summary(value=shown)
        self._file.write_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))
        self._file.flush()

    def close(self) -> None:
        """Close the file; there may be too many runs for all to be open."""
        if self._file is not None:
            self._file.close()
            self._file = None


class WandB(Logger):
    """Write to Weights & Biases: one of its runs per record (needs `mirrorax[wandb]`).

    `mode="offline"`, or WANDB_MODE=offline, writes to `directory` alone; `wandb sync` sends that.
    """

    def __init__(
        self,
        project: str = "mirrorax",
        *,
        mode: str | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self._wandb = optional_package("wandb", "'mirrorax[wandb]'")
        self._options = {"project": project, "mode": mode, "dir": directory}

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Begin a run of Weights & Biases."""
        options = {"name": name, "group": group, "config": dict(config), **self._options}
        run = self._wandb.init(reinit="create_new", **options)
        return Record(lambda step, values: run.log(dict(values), step=step), run.finish)


class MLflow(Logger):
    """Write to MLflow: one of its runs per record (needs `mirrorax[mlflow]`).

    `uri` is the tracking server, or sqlite:///FILE without one; unless given, what
    MLFLOW_TRACKING_URI says, or the file mlflow.db.
    """

    def __init__(self, uri: str | None = None, *, experiment: str = "mirrorax") -> None:
        mlflow = optional_package("mlflow", "'mirrorax[mlflow]'")
        uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        self._client, self._entities = mlflow.MlflowClient(tracking_uri=uri), mlflow.entities
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = (
            known.experiment_id if known else self._client.create_experiment(experiment)
        )

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Begin a run of MLflow, with what it is of as its parameters."""
        client, entities = self._client, self._entities
        run = client.create_run(self._experiment, run_name=name, tags={"group": group})
        run_id = run.info.run_id
        params = [entities.Param(key, str(value)) for key, value in config.items()]
        client.log_batch(run_id, params=params)

        def write(step: int, values: Mapping[str, float]) -> None:
            now = int(time.time() * 1000)
            points = [entities.Metric(tag, value, now, step) for tag, value in values.items()]
            client.log_batch(run_id, metrics=points)

        return Record(write, functools.partial(client.set_terminated, run_id))


#: the names of `--log`
LOGGERS: dict[str, Callable[..., Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": MLflow,
}


def make_logger(text: str) -> Logger:
    """Return the logger of a flag: its name, or NAME:TARGET with a folder, a project or a URI."""
    name, _, target = text.partition(":")
    if name not in LOGGERS:
        raise unknown("log", name, tuple(LOGGERS))
    return LOGGERS[name](*([target] if target else []))


def group_name(settings: Settings) -> str:
    """Name what runs have in common."""
    return f"{settings.environment}, ({settings.potential}, {settings.drift})"


def run_names(runs: Sequence[RunValues]) -> list[str]:
    """Name each run by the values in which the runs differ, and by its seed."""
    varying = [
        name for name in _NAMED if name == "seed" or len({getattr(run, name) for run in runs}) > 1
    ]
    return [",".join(f"{name}={_plain(getattr(run, name))}" for name in varying) for run in runs]


def _plain(value: Any) -> str:
    return np.format_float_positional(value, trim="-") if isinstance(value, float) else str(value)
