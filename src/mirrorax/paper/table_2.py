"""Table 2 of the paper, its fixed hyperparameters, beside what the preset makes of them."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Mapping
from importlib import resources

HEAD = ("parameter", "paper", "preset paper")


def rows(settings: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Return the rows: a parameter in the paper's words, its value there, and ours."""
    text = (resources.files("mirrorax.paper") / "table_2.toml").read_text("utf-8")
    out = []
    for row in tomllib.loads(text)["rows"]:
        values = dict.fromkeys(str(settings[name]) for name in row["settings"])
        ours = ", ".join(values)
        if row["settings"] == ["steps"]:
            ours = f"{settings['steps']:,} in all, 10^6 in each environment"
        elif row["settings"] == ["env_steps_per_update"]:
            ours += ", in each environment"
        elif row["settings"] == ["tau"]:
            ours += ", the weight of the old target"
        out.append((row["parameter"], row["value"], ours))
    return out


def markdown(settings: Mapping[str, object]) -> str:
    """Return the table as Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows(settings)]
    return "\n".join(lines) + "\n"


def comma_separated(settings: Mapping[str, object]) -> str:
    """Return the table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(rows(settings))
    return text.getvalue()
