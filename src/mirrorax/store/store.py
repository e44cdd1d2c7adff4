"""The writer's view of a store: open it, commit shards, set damaged ones aside."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mirrorax.runs import arrow, results
from mirrorax.spec.expand import Runs
from mirrorax.spec.study import Study
from mirrorax.store import files, reading, studies
from mirrorax.store.lock import Lock


class Store:
    """A store held for writing. Use it as a context manager."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        take_over: bool = False,
        fault: files.Fault = files.no_fault,
    ) -> None:
        self.root = files.create(directory)
        self._fault = fault
        self._lock = Lock(self.root, take_over=take_over)
        try:
            self._sweep_temp()
            #: the damaged shards, with the reason
            self.set_aside = self._quarantine_damaged()
        except OSError as error:
            self._lock.release()
            raise files.explain(error, str(self.root)) from error
        except BaseException:
            self._lock.release()
            raise
        present = files.listed(self.root, "shards")
        self._next = max(map(files.sequence_in, present), default=0) + 1
        #: shards in the consolidated copy, and those committed since
        self._copied = len(reading.copied(self.root, present)[1])
        self._since = len(present) - self._copied

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
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
        results.from_arrow(arrow.decode(data)).check_ids()
        number, self._next = self._next, self._next + 1  # used once, whatever comes of it
        name = f"{number:08d}-{files.digest(data)}.parquet"
        files.write(self.root, "shards", name, data, self._fault)
        self._since += 1
        if self._since >= max(reading.FULL, self._copied // 4):
            self.consolidate()
        return name

    def consolidate(self) -> None:
        """Bring the copy for fast loading up to date."""
        reading.consolidate(self.root, self._fault)
        self._copied, self._since = self._copied + self._since, 0

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
        for entry in os.scandir(files.folder(self.root, "tmp")):
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
        damaged = reading.damaged(self.root)
        reader = reading.Reader(self.root, ["diverged_at"], without=damaged)
        reader.results()
        damaged |= reader.damaged
        shards, quarantine = (files.folder(self.root, kind) for kind in ("shards", "quarantine"))
        for name in damaged:
            number = 1
            while os.path.lexists(target := quarantine / f"{name}.{number}"):
                number += 1
            os.replace(shards / name, target)
        if damaged:
            files.sync_folder(quarantine)
            files.sync_folder(shards)
        return {f"shards/{name}": why for name, why in damaged.items()}
