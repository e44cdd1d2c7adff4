"""The writer's view of a store: open it, commit shards, set damaged ones aside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import TracebackType

from mirrorax._version import __version__
from mirrorax.errors import UserError
from mirrorax.runs.arrow import Damaged
from mirrorax.spec.expand import Runs
from mirrorax.spec.study import Study
from mirrorax.store import files, reading, shards, studies
from mirrorax.store.lock import Lock


def create(directory: str | os.PathLike[str]) -> Path:
    """Make an empty store, or return the root of the one that is there."""
    text = os.fspath(directory)
    if "\0" in text or not text:
        raise UserError(f"store: {text!r} is no path")
    root = Path(text)
    if root.exists() and not root.is_dir():
        raise UserError(f"store: {root} is a file; a store is a folder")
    try:
        if not files.check_mark(root):
            if root.is_dir() and any(entry.name != "tmp" for entry in root.iterdir()):
                raise UserError(
                    f"store: {root} is not empty and not a store; choose another folder"
                )
            files.folder(root, "tmp").mkdir(parents=True, exist_ok=True)
            mark = files.mark({"format": files.FORMAT, "created_by": f"mirrorax {__version__}"})
            files.write_plain(root, files.MARK, mark)
        for kind in files.FOLDERS:
            files.folder(root, kind).mkdir(exist_ok=True)
    except OSError as error:
        raise files.explain(error, str(root)) from error
    return root


class Store:
    """A store held for writing. Use it as a context manager."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        take_over: bool = False,
        fault: files.Fault = files.no_fault,
    ) -> None:
        self.root = create(directory)
        self._fault = fault
        self._lock = Lock(self.root, take_over=take_over)
        try:
            self._sweep_temp()
            self.set_aside = self._quarantine_damaged()
        except OSError as error:
            self._lock.release()
            raise files.explain(error, str(self.root)) from error
        except BaseException:
            self._lock.release()
            raise
        present = files.listed(self.root, "shards")
        self._next = max(map(files.sequence_in, present), default=0) + 1
        self._since_parts = len(present) - sum(
            len(listed) for listed in reading.usable(self.root, set(present)).values()
        )

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back."""
        self._lock.release()

    def check_held(self) -> None:
        """Raise `StoreError` if somebody has taken the store over."""
        self._lock.check()

    def commit(self, data: bytes) -> str:
        """Write the bytes of one `Outcome`; when this returns they are safe. Return the name.

        Raises `Damaged` if they are not the bytes of a well-formed outcome.
        """
        runs = shards.outcome(data)
        if wrong := len(runs.wrong_ids()):
            raise Damaged(f"{wrong} run ids are not those of the settings beside them")
        number, self._next = self._next, self._next + 1  # used once, whatever comes of it
        name = f"{number:08d}-{files.digest(data)}.parquet"
        files.write(self.root, "shards", name, data, self._fault)
        self._since_parts += 1
        if self._since_parts >= reading.FULL:
            self.consolidate()
        return name

    def consolidate(self, *, everything: bool = False) -> None:
        """Bring the copies for fast loading up to date."""
        reading.consolidate(self.root, everything=everything, fault=self._fault)
        self._since_parts = 0

    def record(self, study: Study, runs: Runs, lanes: int) -> bool:
        """Write down which study is being run."""
        return studies.record(self.root, study, runs, lanes, self._fault)

    def scratch(self, name: str) -> Path:
        """Return a folder for files that the next start may delete."""
        path = files.inside(self.root, "tmp", name)
        path.mkdir(exist_ok=True)
        return path

    def _sweep_temp(self) -> None:
        """Remove what an earlier writer, dead by now, left half-done."""
        place = files.folder(self.root, "tmp")
        for entry in os.scandir(place):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def _quarantine_damaged(self) -> dict[str, str]:
        """Move damaged shards out of the way; return them with the reason.

        These are files with a wrong digest, and ill-formed shards that no copy covers: a copy is
        made of well-formed shards only. A link in the place of a shard is moved too, and what it
        points to is left alone.
        """
        damaged = shards.damaged(self.root)
        reader = reading.Reader(self.root, ["diverged_at"], without=damaged)
        reader.refresh()
        damaged |= reader.damaged
        for name in damaged:
            self._set_aside(files.folder(self.root, "shards") / name, name)
        return {f"shards/{name}": why for name, why in damaged.items()}

    def _set_aside(self, path: Path, name: str) -> None:
        place = files.folder(self.root, "quarantine")
        for number in range(1, 1000):
            target = place / f"{name}.{number}"
            if not os.path.lexists(target):
                break
        os.replace(path, target)
        files.sync_folder(target.parent)
        files.sync_folder(path.parent)
