"""A study as the text of a TOML file: what `study.parse` reads, it reads back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from mirrorax.spec.study import Block


def to_toml(name: str, blocks: Sequence[Block], comment: str = "") -> str:
    """Write blocks as a study. Every value is explicit, those of a preset included."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines.append(f"name = {_value(name)}")
    for block in blocks:
        lines += ["", "[[blocks]]", *_block(block)]
    return "\n".join(lines) + "\n"


def _block(block: Block) -> Iterable[str]:
    yield "environments = " + _list(_environment(*entry) for entry in block.environments)
    yield "pairs = " + _value(block.pairs)
    yield "schedules = " + _value(block.schedules)
    for axis in ("alpha", "w", "lam", "v"):
        values = getattr(block, axis)
        if values:
            yield f"{axis} = " + _value(values)
    yield "seeds = " + _value(block.seeds)
    for key, value in block.fixed:
        yield f"{key} = " + _value(value)


def _environment(name: str, scales: Sequence[float]) -> str:
    if tuple(scales) == (1.0,):
        return _value(name)
    return f"{{ name = {_value(name)}, reward_scale = {_value(scales)} }}"


def _list(items: Iterable[str]) -> str:
    return "[" + ", ".join(items) + "]"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)  # a JSON string is a TOML string
    return _list(_value(item) for item in value)
