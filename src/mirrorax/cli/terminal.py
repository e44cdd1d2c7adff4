"""What commands do with the terminal and with files: tables, JSON, pictures, Ctrl-C."""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mirrorax.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from mirrorax.runs.settings import RunValues, Settings

#: how long the first Ctrl-C waits for the end of a segment, or of a compilation
PATIENCE_SECONDS = 1.5

_FORMATS = (".png", ".svg", ".pdf")


def columns(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows of text in columns, the first `left` aligned to the left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        aligned = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in cells]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def check_target(field: str, path: str, endings: Sequence[str] = _FORMATS) -> None:
    """Refuse the path of a file that cannot be written, before the work that would fill it."""
    target = Path(path)
    if target.suffix.lower() not in endings or not target.stem:
        allowed = " or ".join([", ".join(endings[:-1]), endings[-1]][len(endings) == 1 :])
        raise UserError(f"{field}: {path!r} is not allowed: a file name that ends in {allowed}")
    folder = str(target.parent)
    if not target.parent.is_dir():
        raise UserError(f"{field}: {path!r}: there is no folder {folder!r}")
    if target.is_dir():
        raise UserError(f"{field}: {path!r} is a folder; name a file")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".mirrorax."):
            pass
    except OSError as error:
        raise UserError(f"{field}: cannot write {path!r}: {error.strerror}") from None


def save_figure(path: str, draw: Callable[[Any], Any]) -> None:
    """Draw on a new axis and write the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from mirrorax.files import write_file

    figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    data = io.BytesIO()
    figure.savefig(data, format=Path(path).suffix[1:].lower())
    try:
        write_file(path, data.getvalue())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def show_result(
    title: str,
    runs: Sequence[RunValues],
    reached: Mapping[str, Sequence[str]],
    cells: Sequence[Mapping[str, Any]],
    scores: tuple[np.ndarray, np.ndarray],
    known: bool,
) -> None:
    """Print a row for each run, a row for each point of the grid, and the mean over all.

    `reached` are further columns; `scores` are the normalised returns, stochastic and greedy;
    `known` says whether the bounds of returns are known.
    """
    import numpy as np

    from mirrorax.analysis.few_seeds import UNIT, seeds_in_words
    from mirrorax.training.result import varying

    bounds = UNIT if known else None
    names = varying(runs)
    head = ["run", *names, "seed", "normalised", "greedy", *reached]
    body = [
        [
            str(index),
            *(f"{getattr(run, name):g}" for name in names),
            str(run.seed),
            *(f"{score[index]:.3f}" for score in scores),
            *(column[index] for column in reached.values()),
        ]
        for index, run in enumerate(runs)
    ]
    print(f"{title}\n{columns([head, *body], left=0)}")
    if len(cells) > 1:
        head = [*names, "runs", "normalised", "95% interval", "greedy"]
        body = [
            [
                *(f"{cell[name]:g}" for name in names),
                str(cell["runs"]),
                f"{cell['mean']:.3f}",
                seeds_in_words(np.array([cell["scores"]]), bounds),
                f"{cell['greedy_mean']:.3f}",
            ]
            for cell in cells
        ]
        print(f"\nover seeds\n{columns([head, *body], left=0)}")
    stochastic, greedy = scores
    words = seeds_in_words(stochastic[None], bounds, noun="run")
    words = f"95% interval over runs {words}" if words.startswith("[") else words
    print(f"\nnormalised return {stochastic.mean():.3f}  ({words});  greedy {greedy.mean():.3f}")


def conditions(settings: Settings, runs: Sequence[RunValues]) -> str:
    """Say what all runs have in common, for the line below the table."""
    from mirrorax.training.result import varying

    values, apart = runs[0], varying(runs)
    first = "w" if values.alpha is None else "alpha"
    parts = []
    second = "v" if values.lam is None else "lam"
    for name, schedule in ((first, settings.alpha_schedule), (second, settings.lam_schedule)):
        number = "" if name in apart else f" {getattr(values, name):g}"
        parts.append(f"{name}{number} ({schedule})")
    if settings.temperature_units != "reward":
        parts.append(f"in units of {settings.temperature_units}")
    return ", ".join([*parts, f"{settings.steps:,} steps"])


def leave(advice: str = "") -> NoReturn:
    """End the process after Ctrl-C, without Python's teardown, which XLA's threads can crash."""
    # The bar may have hidden the cursor, and a print may be what is interrupted.
    cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""
    advice = f"mirrorax: {advice}\n" if advice else ""
    os.write(2, f"{cursor}{advice}mirrorax: interrupted\n".encode())
    os._exit(130)


class Stop:
    """Ctrl-C while jax works: an exception would be lost in its callbacks, so a flag is set.

    The first Ctrl-C takes effect at the next `check`. If none comes in time, because jax compiles,
    or at the second Ctrl-C, the process ends at once. A thread does that: a signal handler in
    Python has to wait until jax returns. An interrupted block ends the process, without Python's
    teardown, which XLA's threads can crash; `advice` is what the last lines say before.
    """

    def __init__(self, advice: str = "") -> None:
        self.advice = advice
        #: what to do before the process ends at once
        self.cleanup: list[Callable[[], None]] = []
        self._requested = False
        self._holding = False
        self._ending = threading.Lock()
        self._previous: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Stop:
        """Listen, unless the signal is ignored, as in background jobs of a shell."""
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._previous = signal.signal(signal.SIGINT, self._handle)
            reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            self._previous_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, args=(reading,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Restore what was there before; end the process if it was interrupted."""
        if self._thread is not None:
            signal.set_wakeup_fd(self._previous_fd)
            os.close(self._writing)
            self._thread.join()
            self._thread = None
            signal.signal(signal.SIGINT, self._previous)
        if kind is KeyboardInterrupt:
            sys.stdout.flush()
            self._leave()

    def _handle(self, *_: object) -> None:
        if self._requested and not self._holding:
            self._end()
        self._requested = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the process alive until the end of the block, for work that must not be cut.

        The thread waits for the lock. The handler runs on this thread and cannot wait for it: it
        leaves the end to the thread.
        """
        self._holding = True
        try:
            with self._ending:
                yield
        finally:
            self._holding = False

    def _watch(self, reading: int) -> None:
        """Read the numbers of the signals, until the other end of the pipe is closed."""
        times, wait = 0, None
        while select.select([reading], [], [], wait)[0]:
            numbers = os.read(reading, 64)
            times += numbers.count(signal.SIGINT)
            if not numbers:
                os.close(reading)
                return
            if times > 1:
                break
            wait = PATIENCE_SECONDS if times else None
        self._end()

    def _end(self) -> None:
        """Tidy up and end the process."""
        self._ending.acquire()
        for action in self.cleanup:
            action()
        self._leave()

    def _leave(self) -> NoReturn:
        leave(self.advice)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self._requested:
            raise KeyboardInterrupt
