"""Loggers: callbacks that write for TensorBoard, Weights & Biases and MLflow."""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mirrorax.errors import UserError, unknown
from mirrorax.runs.settings import GRID

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress
    from mirrorax.runs.results import Results
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training.result import TrainResult

#: values that may differ from run to run, in the order of a run's name
_NAMED = (*GRID, "seed")


class Record(Protocol):
    """What a logger keeps of one run, or of one chunk of a sweep."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add a point."""

    def pause(self) -> None:
        """Let go of what is scarce; a later point opens it again."""

    def close(self) -> None:
        """Add nothing more."""


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
        try:
            from tensorboardX import event_file_writer  # noqa: F401
        except ImportError:
            raise _not_installed("tensorboard", "the writer") from None
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"tensorboard: cannot make the folder {str(directory)!r}: {error.strerror}"
            ) from None

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Name the folder; its file is opened with the first point."""
        return _EventFile(self.directory / name)


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

    def pause(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    close = pause


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
        try:
            import wandb
        except ImportError:
            raise _not_installed("wandb", "Weights & Biases") from None
        self._wandb: Any = wandb
        self._options = {"project": project, "mode": mode, "dir": directory}

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Begin a run of Weights & Biases."""
        options = {"name": name, "group": group, "config": dict(config), **self._options}
        return _WandBRun(self._wandb.init(reinit="create_new", **options))


class _WandBRun:
    def __init__(self, run: Any) -> None:
        self._run = run

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def pause(self) -> None:
        """Keep it: a run that has ended cannot be written to."""

    def close(self) -> None:
        self._run.finish()


class MLflow(Logger):
    """Write to MLflow: one of its runs per record (needs `mirrorax[mlflow]`).

    `uri` is the tracking server, or sqlite:///FILE without one; unless given, what
    MLFLOW_TRACKING_URI says, or the file mlflow.db.
    """

    def __init__(self, uri: str | None = None, *, experiment: str = "mirrorax") -> None:
        try:
            import mlflow
        except ImportError:
            raise _not_installed("mlflow", "MLflow") from None
        uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        self._entities = mlflow.entities
        known = self._client.get_experiment_by_name(experiment)
        self._experiment = (
            known.experiment_id if known else self._client.create_experiment(experiment)
        )

    def open(self, name: str, group: str, config: Mapping[str, Any]) -> Record:
        """Begin a run of MLflow, with what it is of as its parameters."""
        run = self._client.create_run(self._experiment, run_name=name, tags={"group": group})
        entities = self._entities
        params = [entities.Param(key, str(value)) for key, value in config.items()]
        self._client.log_batch(run.info.run_id, params=params)
        return _MLflowRun(self._client, entities.Metric, run.info.run_id)


class _MLflowRun:
    def __init__(self, client: Any, metric: Any, run_id: str) -> None:
        self._client, self._metric, self._id = client, metric, run_id

    def write(self, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        points = [self._metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=points)

    def pause(self) -> None:
        """Hold nothing."""

    def close(self) -> None:
        self._client.set_terminated(self._id)


def _not_installed(extra: str, what: str) -> UserError:
    return UserError(f"{extra}: {what} is not installed; pip install 'mirrorax[{extra}]'")


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
