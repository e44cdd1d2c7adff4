"""Settings that were written with results. Imports no jax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, ValidationError, create_model

from mirrorax.errors import UserError, shown
from mirrorax.runs.settings import LATER, Settings, one_line

#: the fields of `Settings` with their types and limits, without the checks of their names
_stored_fields: dict[str, Any] = {
    name: (Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation, ...)
    for name, info in Settings.model_fields.items()
}
_Stored: Any = create_model(
    "StoredSettings", __config__=ConfigDict(extra="forbid"), **_stored_fields
)


def stored_settings(fields: Any) -> Settings:
    """Return settings that were written with results; raise `UserError` if they are ill-formed.

    A name need not be known here: results of a plugin can be read without the plugin. Fields that
    are younger than the results get the value that means what was done before.
    """
    if not isinstance(fields, Mapping):
        raise UserError(f"settings: {shown(fields)}: expected a table")
    try:
        checked = _Stored(**{**LATER, **fields})
    except ValidationError as error:
        raise one_line(error) from None
    values = {name: getattr(checked, name) for name in Settings.model_fields}
    for name, value in values.items():
        texts = value if isinstance(value, tuple) else (value,)
        for text in texts:
            if isinstance(text, str) and not (text.isprintable() and len(text) <= 2000):
                raise UserError(f"{name}: {shown(text)}: expected a line of text")
    return Settings.model_construct(**values)
