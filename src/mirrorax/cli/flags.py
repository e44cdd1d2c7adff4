"""Flags that remember how they were typed, so that a mistake is told in the user's own words."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mirrorax.errors import UserError

# The field at the head of an error's line, with the place in a list if there is one: "hidden.1: ".
_HEAD = re.compile(r"(?P<field>[a-z_]+)(?:\.\d+)*: ")


class Typed(argparse.Action):
    """Store a value, and the spelling of the flag that gave it in `args.typed`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Store both; two spellings of one flag are a mistake."""
        typed = getattr(namespace, "typed", {})
        flag = option_string or self.dest
        if typed.get(self.dest, flag) != flag:
            parser.error(f"{flag}: {typed[self.dest]} is given too, and means the same")
        setattr(namespace, self.dest, values)
        namespace.typed = {**typed, self.dest: flag}


@contextlib.contextmanager
def naming(
    args: argparse.Namespace,
    flags: Mapping[str, str] | None = None,
    from_file: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Let an error about a field name the flag, or the file, that the field came from.

    `flags` says which flag stands for a field of another name; `from_file` holds the fields that
    were read from `args.config`, and may be filled while the context is open.
    """
    try:
        yield
    except UserError as error:
        text = str(error)
        head = _HEAD.match(text)
        if head is None:
            raise
        field = (flags or {}).get(head["field"], head["field"])
        typed = getattr(args, "typed", {})
        if field in typed:
            raise UserError(f"{typed[field]}: {text[head.end() :]}") from None
        if from_file and field in from_file:
            raise UserError(f"{typed.get('config', 'config')}: {args.config}: {text}") from None
        # A default may not fit what was typed: "batch_size: 512 is larger than buffer_size = 100".
        for other, flag in typed.items():
            if f" {other} = " in text:
                raise UserError(f"{flag}: {text}") from None
        raise


def numbers(name: str, text: Any) -> Any:
    """Read "0.1" or "0.1,0.2"; a number or list from TOML passes through."""
    if not isinstance(text, str):
        return text
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name}: {text!r} is not a number or numbers with commas") from None
    return found[0] if len(found) == 1 else found


def settings_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the texts of settings read as they are written: 64,64 and 1e6."""
    from mirrorax.runs.settings import Settings

    out = dict(given)
    if "hidden" in out:
        out["hidden"] = _hidden(out["hidden"])
    for name, info in Settings.model_fields.items():
        if isinstance(info.default, int) and name in out:
            out[name] = _whole(out[name])
    return out


def _hidden(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return given.split(",") if given else []


def _whole(given: Any) -> Any:
    """Read "1e6" as the whole number it is; TOML's 1e6 is taken for one too."""
    try:
        number = float(given) if isinstance(given, str) and "e" in given.lower() else None
    except ValueError:
        return given
    return int(number) if number is not None and number.is_integer() else given
