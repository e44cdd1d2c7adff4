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
