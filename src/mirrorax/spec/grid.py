"""The values of one axis of a study: a list of numbers, or a range with a number of points."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

#: Significant digits of a point of a range. Powers differ in the last bit from one C library to
#: the next, and a run's identity must not.
RANGE_DIGITS = 12
MOST_POINTS = 10_000

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Ends = Annotated[list[_Number], Field(min_length=2, max_length=2)]


class Range(BaseModel):
    """`{ log = [low, high], points = n }` or `{ linear = [low, high], points = n }`.

    `plus` lists values to put in front of the range: a logarithmic one cannot reach 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    log: _Ends | None = None
    linear: _Ends | None = None
    points: Annotated[int, Field(ge=2, le=MOST_POINTS)]
    plus: list[_Number] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_scale(self) -> Range:
        if (self.log is None) == (self.linear is None):
            raise ValueError("give one of log = [low, high] and linear = [low, high]")
        return self

    @field_validator("log", "linear")
    @classmethod
    def _rises(cls, ends: list[float] | None, info: ValidationInfo) -> list[float] | None:
        if ends is not None and not ends[0] < ends[1]:
            raise ValueError(f"a range rises: low < high, got {ends}")
        if ends is not None and info.field_name == "log" and ends[0] <= 0:
            raise ValueError(f"a logarithmic range starts above 0, got {ends[0]}")
        return ends

    def values(self) -> tuple[float, ...]:
        """Return the values in order: `plus`, then the points from low to high."""
        low, high = self.log or self.linear or [0.0, 0.0]
        spaced = np.linspace if self.log is None else np.geomspace
        points = spaced(low, high, self.points)
        rounded = (float(f"{point:.{RANGE_DIGITS}g}") for point in points)
        return (*(value + 0.0 for value in self.plus), *(value + 0.0 for value in rounded))


def repeated(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return the values that are given more than once."""
    return tuple(value for value, count in Counter(values).items() if count > 1)
