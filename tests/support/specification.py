"""The identity of single runs, written plainly from its definition in `mirrorax.runs.chunk`."""

import hashlib
import json
import math

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.runs.presets import LATER, LATER_VALUES


def plain(value):
    if isinstance(value, float):
        assert math.isfinite(value)
        return value + 0.0  # -0.0 and 0.0 are one value
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def canonical(spec):
    """Write a specification as canonical JSON."""
    later = {name: plain(value) for name, value in {**LATER, **LATER_VALUES}.items()}
    written = {name: plain(value) for name, value in spec.items()}
    written = {n: v for n, v in written.items() if n not in later or v != later[n]}
    return json.dumps(written, sort_keys=True, separators=(",", ":"), allow_nan=False)


def run_id(spec):
    """Return the identity of the run that `spec` describes."""
    return hashlib.sha256(canonical(spec).encode()).hexdigest()[:32]


def run_key(spec):
    """Return the run's random key: two words."""
    rest = {name: value for name, value in spec.items() if name != "algorithm_version"}
    rest |= {"eval_every": 0} if "eval_every" in rest else {}
    digest = hashlib.sha256(canonical(rest).encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


def specification(settings, values):
    """Return the specification of one run."""
    version = {"algorithm_version": ALGORITHM_VERSION}
    return {**settings.model_dump(), **values.model_dump(), **version}


def specification_of(runs, index):
    """Return the specification of one of the runs of a study."""
    values = {name: column[index].item() for name, column in runs.values.items()}
    values = {name: None if value != value else value for name, value in values.items()}
    settings = runs.configurations[int(runs.configuration[index])]
    return {**settings.model_dump(), **values, "algorithm_version": ALGORITHM_VERSION}
