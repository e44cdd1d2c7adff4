"""TOML: writing it, and reading what anybody may have written, with limits on size and depth."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorax.errors import UserError

_LARGEST_FILE = 10_000_000
#: Tables and lists within each other. The deepest key of ours is at 4.
_DEEPEST = 16
_INTEGERS = range(-(2**63), 2**63)  # what TOML promises


def read_text(path: str | Path, where: str) -> str:
    """Return the text of a file; `where` names it in an error."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise UserError(f"{where}: such a file has at most {_LARGEST_FILE:,} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise UserError(f"{where}: cannot read it: {error.strerror}") from None
    except ValueError as error:  # a path with NUL in it, too
        if isinstance(error, UserError):
            raise
        raise UserError(f"{where}: not a text file in UTF-8") from None


def parse(text: str, where: str) -> dict[str, Any]:
    """Return the tables of a text; `where` names it in an error."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        raise UserError(f"{where}: not TOML: {error}") from None
    except RecursionError:
        raise UserError(f"{where}: nested too deeply") from None
    level = list(document.items())  # values, and the key of the document that each is below
    for _ in range(_DEEPEST):
        for key, value in level:
            if isinstance(value, int) and value not in _INTEGERS:
                raise UserError(f"{where}: {key}: a whole number that does not fit into 64 bits")
        level = [
            (key, inner)
            for key, value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise UserError(f"{where}: {level[0][0]}: nested too deeply: at most {_DEEPEST} levels")
    return document


def written(fields: Mapping[str, Any]) -> str:
    """Return fields as the text of a TOML file; one that is None is left out."""
    lines = [f"{key} = {value_text(value)}\n" for key, value in fields.items() if value is not None]
    return "".join(lines)


def value_text(value: Any) -> str:
    """Return a value as it is written in TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {value_text(v)}' for key, v in value.items())} }}"
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    raise UserError(f"{value!r} cannot be written in TOML")
