"""The kinds of numbers in settings and values. Imports no jax."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

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
