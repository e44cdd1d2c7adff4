"""A reference: values of Rbst from elsewhere, to stand beside our own. Read from a TOML file.

    name = "2024"                        # the heading of its column
    thresholds = [0.9, 0.95]
    environments = ["Catch", "DeepSea"]  # optional: the values are means over these
    cells = 784                          # optional: the number of cells behind each value

    [[rows]]
    label = "A"                          # optional: a short name of the row
    potential = "entropy"
    drift = "kl"
    rbst = [0.0747, 0.0327]              # one value per threshold

    [settings]                           # optional: settings that all rows share
    steps = 1_000_000

A row may name `alpha_schedule`, `lam_schedule` and `actor_q`; without them temperatures are
constant and Q is regularised. Values are taken to be over cells with positive temperatures, of the
mean of stochastic returns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mirrorax.analysis.landscape import setting_text
from mirrorax.errors import UserError, shown, unknown
from mirrorax.regularizers.names import parse_drift, parse_potential
from mirrorax.runs.settings import OTHER_NUMBERS, Settings
from mirrorax.spec import toml
from mirrorax.spec.form import mistakes


@dataclass(frozen=True)
class ReferenceValues:
    """What a reference has for an algorithm: its label there and Rbst by threshold.

    `otherwise` says which settings of the algorithm are not the reference's.
    """

    label: str
    rbst: Mapping[float, float]
    cells: int | None
    otherwise: str


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected a line of text")
    return text


_Text = Annotated[str, Field(min_length=1, max_length=60), AfterValidator(_line)]
_Number = Annotated[float, Field(ge=0, le=1)]
_STRICT = ConfigDict(frozen=True, extra="forbid", strict=True)


class ReferenceRow(BaseModel):
    """An algorithm and its values, one per threshold."""

    model_config = _STRICT

    potential: Annotated[str, AfterValidator(lambda text: str(parse_potential(text)))]
    drift: Annotated[str, AfterValidator(lambda text: str(parse_drift(text)))]
    rbst: list[_Number]
    label: _Text | None = None
    alpha_schedule: str = "constant"
    lam_schedule: str = "constant"
    actor_q: str = "regularized"

    @property
    def algorithm(self) -> dict[str, str]:
        """The settings by which an algorithm is recognised."""
        return self.model_dump(exclude={"rbst", "label"})


class Reference(BaseModel):
    """A named table of values of Rbst."""

    model_config = _STRICT

    name: _Text
    thresholds: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=1)]
    rows: Annotated[list[ReferenceRow], Field(min_length=1)]
    environments: Annotated[list[_Text], Field(min_length=1)] | None = None
    cells: Annotated[int, Field(ge=1)] | None = None
    settings: dict[str, Any] = {}

    def values(
        self, settings: Mapping[str, Any], environments: Sequence[str]
    ) -> ReferenceValues | None:
        """Return what it has for the settings of an algorithm on these environments, if any."""
        if self.environments is not None and set(environments) != set(self.environments):
            return None
        for row in self.rows:
            if row.algorithm.items() <= settings.items():
                names = differing(settings, self.settings)
                return ReferenceValues(
                    label=row.label or "",
                    rbst=dict(zip(self.thresholds, row.rbst, strict=True)),
                    cells=self.cells,
                    otherwise="; ".join(compared(settings, self.settings, name) for name in names),
                )
        return None


def read_reference(path: str | os.PathLike[str]) -> Reference:
    """Read a reference from a TOML file; raise `UserError` naming the first mistake in it."""
    where = os.fspath(path)
    return parse_reference(toml.read_text(where, where), where)


def parse_reference(text: str, where: str = "reference") -> Reference:
    """Read a reference from the text of a TOML file."""
    reference, wrong = mistakes(Reference, toml.parse(text, where), "")
    if wrong:
        raise UserError(f"{where}: {wrong[0]}")
    assert isinstance(reference, Reference)
    known = (*Settings.model_fields, *OTHER_NUMBERS)
    for name in reference.settings:
        if name not in known:
            raise unknown(f"{where}: settings", name, known)
    if len(set(reference.thresholds)) < len(reference.thresholds):
        raise UserError(f"{where}: thresholds: {reference.thresholds} has a value twice")
    seen: list[dict[str, str]] = []
    for k, row in enumerate(reference.rows):
        if len(row.rbst) != len(reference.thresholds):
            raise UserError(
                f"{where}: rows[{k}].rbst: {shown(row.rbst)} has {len(row.rbst)} values; there are "
                f"{len(reference.thresholds)} thresholds"
            )
        if row.algorithm in seen:
            raise UserError(
                f"{where}: rows[{k}]: ({row.potential}, {row.drift}) is there already; each once"
            )
        seen.append(row.algorithm)
    return reference


def differing(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in which of the wanted settings an algorithm is another one.

    What it does not tell of itself is taken to be as wanted.
    """
    return [
        name
        for name, value in wanted.items()
        if name in settings and _plain(settings[name]) != _plain(value)
    ]


def compared(settings: Mapping[str, Any], wanted: Mapping[str, Any], name: str) -> str:
    """Say how an algorithm differs in one of the wanted settings."""
    both = (settings[name], wanted[name])
    ours, theirs = (f"{v:,}" if type(v) is int else setting_text(v) for v in both)
    return f"{name} {ours}, not {theirs}"


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
