"""Table 2 of the paper, its fixed hyperparameters, beside what the preset makes of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources

HEAD = ("parameter", "paper", "preset paper")


def rows(settings: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Return the rows: a parameter in the paper's words, its value there, and ours."""
    text = (resources.files("mirrorax.paper") / "table_2.toml").read_text("utf-8")
    out = []
    for row in tomllib.loads(text)["rows"]:
        ours = ", ".join(dict.fromkeys(str(settings[name]) for name in row["settings"]))
        if row["settings"] == ["steps"]:
            ours = f"{settings['steps']:,} in all, 10^6 in each environment"
        elif row["settings"] == ["env_steps_per_update"]:
            ours += ", in each environment"
        elif row["settings"] == ["tau"]:
            ours += ", the weight of the old target"
        out.append((row["parameter"], row["value"], ours))
    return out
