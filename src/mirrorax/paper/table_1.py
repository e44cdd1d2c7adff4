"""Table 1 of the paper, the robustness of its pairs of regularisers, as a reference."""

from __future__ import annotations

from functools import cache
from importlib import resources

from mirrorax.analysis.reference import Reference, parse_reference
from mirrorax.paper.readings import FIRST, reading


@cache
def reference() -> Reference:
    """Return the printed values; their settings are those of the first published results."""
    text = (resources.files("mirrorax.paper") / "table_1.toml").read_text("utf-8")
    table = parse_reference(text, "table_1.toml")
    return table.model_copy(update={"settings": dict(reading(FIRST).shared())})


def printed_rbst(level: float) -> dict[str, float]:
    """Return the paper's Rbst at a threshold, by the labels of its rows."""
    table = reference()
    at = table.thresholds.index(level)
    return {str(row.label): row.rbst[at] for row in table.rows}
