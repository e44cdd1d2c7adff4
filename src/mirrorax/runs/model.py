"""The kinds of numbers in settings and values, and the base of their models. Imports no jax."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mirrorax.errors import UserError, shown
from mirrorax.runs import float32

LARGEST = 2**31 - 1  # sizes and numbers of updates are int32 in the compiled program
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Steps = Annotated[int, Field(ge=1, le=2**53)]
Width = Annotated[int, Field(ge=1, le=65_536)]
# Training computes in float32.
NonNegative = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    AfterValidator(float32.finite),
    AfterValidator(float32.zero_or_positive),
]
Positive = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    AfterValidator(float32.finite),
    AfterValidator(float32.positive),
]
Unit = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1), AfterValidator(float32.zero_or_positive)]
Discount = Annotated[
    float,
    Field(ge=0, lt=1),
    AfterValidator(float32.zero_or_positive),
    AfterValidator(float32.below_one),
]


def one_line(error: ValidationError) -> UserError:
    """Return the first mistake: the field, what is wrong and the value."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return UserError(f"{where}: no such field")
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and reason.startswith(where):
        return UserError(reason)
    return UserError(f"{where}: {reason} (got {shown(first['input'])})")


class Model(BaseModel):
    """A frozen model whose mistakes are one line of a `UserError`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise one_line(error) from None
