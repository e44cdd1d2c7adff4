"""A run's identity: the content hash of everything that decides its result.

The *specification* of a run is one flat mapping: every setting, every traced value and the
`algorithm_version`. Its canonical JSON has sorted keys, no spaces, ASCII only; floats are written
in the shortest form that reads back to the same number, and are floats (`1.0`, never `1`) wherever
the field is one; -0.0 is 0.0; a value that does not apply is null. A field of `LATER` is left out
at the value that means what was done before there was such a field: identities stay as they are.

- `run_ids`: the first 32 hexadecimal digits of the SHA-256 of that text.
- `run_keys`: the first 8 bytes, as two big-endian uint32, of the SHA-256 of the text *without*
  `algorithm_version` and with `eval_every` 0: two versions of the algorithm see the same random
  numbers, and so does a run whose learning curves are recorded.

Device, lane width and library versions are provenance, not identity.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import UInt32

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError
from mirrorax.runs.presets import LATER, LATER_VALUES
from mirrorax.runs.settings import TRACED, Settings

ID_DIGITS = 32
VERSION_FIELD = "algorithm_version"

#: What is recorded along the way is not part of what a run is; its key has it at this value.
_RECORDING = {"eval_every": 0}

#: Traced fields that count: whole numbers. All the others are floats (NaN in a column is null).
WHOLE = ("seed",)


def run_ids(
    settings: Settings, columns: Mapping[str, np.ndarray], version: int = ALGORITHM_VERSION
) -> np.ndarray:
    """Return the ids of runs with these settings, as an array of 32-byte strings."""
    texts = _texts(settings, columns, {VERSION_FIELD: version})
    ids = [hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS] for text in texts]
    return np.array(ids, dtype=f"S{ID_DIGITS}")


def run_keys(settings: Settings, columns: Mapping[str, np.ndarray]) -> UInt32[np.ndarray, "runs 2"]:
    """Return the random keys of runs with these settings."""
    texts = _texts(settings, columns, _RECORDING)
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts)
    return np.frombuffer(digests, dtype=">u4").astype(np.uint32).reshape(-1, 2)


def _left_out(name: str, value: Any) -> bool:
    return name in LATER and bool(_plain(value) == _plain(LATER[name]))  # a tuple is a list


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"a run: its settings are finite numbers, not {value!r}")
        return value + 0.0  # -0.0 and 0.0 are one value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _texts(
    settings: Settings, columns: Mapping[str, np.ndarray], other: Mapping[str, Any]
) -> Iterator[str]:
    """Yield each run's canonical JSON, with other fields in place of and besides the settings.

    Half a million dictionaries would take minutes. The static part of the text is the same for
    all runs, so it is a template, and a traced column has few distinct values, so each is written
    once.
    """
    if set(columns) != set(TRACED):
        raise ValueError(f"columns are {sorted(columns)}, expected {sorted(TRACED)}")
    fixed = {**settings.model_dump(), **other}
    # Of a saved policy its digest counts, not its folder.
    fixed["reference"] = fixed["reference"].rpartition("@")[2]
    written = {name: value for name, value in fixed.items() if not _left_out(name, value)}
    names = sorted([*written, *columns])
    template = "".join(
        "%s" if name in columns else f"{json.dumps(name)}:{_escaped(written[name])},"
        for name in names
    )
    rows = zip(*(_column_texts(n, columns[n]) for n in names if n in columns), strict=True)
    return ("{" + (template % row)[:-1] + "}" for row in rows)


def _escaped(value: Any) -> str:
    text = json.dumps(_plain(value), separators=(",", ":"), allow_nan=False)
    return text.replace("%", "%%")


def _column_texts(name: str, column: np.ndarray) -> list[str]:
    """Return each value of a column with its name and a comma; nothing where it is left out."""
    distinct, inverse = np.unique(column, return_inverse=True)
    texts = [f"{json.dumps(name)}:{_number(name, value)}," for value in distinct.tolist()]
    if name in LATER_VALUES:
        texts = ["" if math.isnan(v) else t for v, t in zip(distinct, texts, strict=True)]
    spread: list[str] = np.array(texts, dtype=object)[inverse].tolist()
    return spread


def _number(name: str, value: float) -> str:
    if name in WHOLE:
        return str(int(value))
    return "null" if math.isnan(value) else json.dumps(_plain(float(value)), allow_nan=False)
