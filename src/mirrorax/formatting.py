"""Numbers in words: one way to say a count, a time span and a rate, and to read a count."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Say how many: 1 run, 2 runs, 504,600 runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    """Say a time span shortly: 45 s, 12 min, 3 h 20 min, 5 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def rate(per_second: float) -> str:
    """Say how many runs are done in a second, or in an hour if they are few."""
    if per_second >= 1:
        return f"{per_second:,.1f} runs/s"
    return f"{per_second * 3600:,.0f} runs/h"


def whole(text: str) -> int:
    """Read a whole number of a flag; one that does not fit into 64 bits is a `ValueError`."""
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{len(text)} digits do not fit into 64 bits")
    return value
