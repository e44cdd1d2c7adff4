"""The Tsallis potential of m = 0.5 as one writes it first: in probabilities, for autodiff.

The derivative of p^0.5 has no bound as p goes to 0. Where float32 rounds a probability to 0, the
derivative of the loss is infinity times 0, not a number, and training ends there. mirrorax keeps
the probabilities it hands to a function above 0; this one puts the zeros back.
`tsallis(0.5)` works from logits and has no such place; docs/reproduction.md compares the two.
"""

import mirrorax

SMALLEST = 1e-30  # below it mirrorax hands over this number; float32 itself ends at 1e-38


@mirrorax.register_potential("plain_tsallis")
def plain_tsallis(p):
    p = p * (p > SMALLEST)
    return 2 * (p - p**0.5).sum()
