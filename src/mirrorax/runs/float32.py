"""Numbers as training sees them: in float32. Checks for fields, which return what they are given.

A number is recorded, and a run identified, as it was given. One that float32 cannot hold would then
stand for another: 1e-50 for 0, or 0.999999999 for 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

HIGHEST = 3.4028234663852886e38
#: the smallest one of full precision; those below are flushed to 0 by many processors
LOWEST = 1.1754943508222875e-38
#: the largest number below 1
BELOW_ONE = 1 - 2.0**-24


def rounded(value: float) -> float:
    """Return the float32 that is nearest to a number, which must not be larger than `HIGHEST`."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def finite(value: float) -> float:
    """Refuse what would be infinite."""
    if value > HIGHEST:
        raise ValueError(f"Input should be at most {HIGHEST:g}, in float32")
    return value


def positive(value: float) -> float:
    """Refuse what would be 0."""
    if value < LOWEST:
        raise ValueError(f"Input should be at least {LOWEST:g}, or it is 0 in float32")
    return value


def zero_or_positive(value: float) -> float:
    """Refuse what would be 0 and is not."""
    if 0 < value < LOWEST:
        raise ValueError(f"Input should be 0 or at least {LOWEST:g}, or it is 0 in float32")
    return value


def below_one(value: float) -> float:
    """Refuse what would be 1."""
    if rounded(value) >= 1:
        raise ValueError(f"Input should be at most {BELOW_ONE:.8f}, or it is 1 in float32")
    return value


def coinciding(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the first two different numbers that are one in float32, if there are such."""
    seen: dict[float, float] = {}
    for value in values:
        other = seen.setdefault(rounded(value), value)
        if other != value:
            return other, value
    return None
