"""The minimal temperature against the maximum return, and how it grows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.temperature import THRESHOLDS, Minimal, Temperature, minimal_temperatures
from mirrorax.errors import UserError
from mirrorax.figures.style import COLUMN, MARKERS, PALETTE, new

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirrorax.analysis.summary import RobustnessTable


#: Where a triangle stands, as a part of the value that it is below.
_BELOW = 0.75


def _line(curve: Any, sure: bool) -> str:
    """Say what the line is, and how well it is known."""
    if curve is None:
        return "too few points for a line"
    value, low, high = (
        f"{x:{curve.form}}" if np.isfinite(x) else r"-$\infty$" if x < 0 else r"$\infty$"
        for x in (curve.value, curve.low, curve.high)
    )
    ends = f"[{low}, {high}]" if sure else "(one seed: no interval)"
    return f"{curve.kind} {value} {ends}"


def _label(threshold: float, points: Sequence[Minimal], line: str, log: bool) -> str:
    text = f"\N{GREATER-THAN OR EQUAL TO} {threshold:g}: {line}"
    hidden = sum(p.censored for p in points)
    idle = sum(not p.known and not p.censored for p in points)
    zeros = sum(p.value == 0 and p.known for p in points) if log else 0
    counts = {"never": hidden, "at zero": zeros, "by the other alone": idle}
    rest = [f"{count} {word}" for word, count in counts.items() if count]
    return text + (f"\n({', '.join(rest)})" if rest else "")


def _draw_brackets(points: Sequence[Minimal], ax: Axes, colour: str) -> None:
    for point in points:
        low, high = point.between
        if low > 0:
            ax.vlines(point.max_return, low, high, color=colour, lw=0.8)
        else:
            ax.plot(point.max_return, _BELOW * high, marker=11, markersize=4, color=colour)


def _heights(points: Iterable[Minimal]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis: twice as far as the brackets, whatever a band does."""
    ends = [(low or _BELOW * high, high) for low, high in (p.between for p in points)]
    return min(low for low, _ in ends) / 2, 2 * max(high for _, high in ends)


def draw_scaling(
    points_at: Mapping[float, Sequence[Minimal]],
    ax: Axes,
    *,
    temperature: Temperature,
    sure: bool = True,
    fit: Callable[[Sequence[Minimal]], Any] = power_law,
    log: bool = True,
) -> Axes:
    """Draw points, fitted line and 95% band for each threshold, on logarithmic or linear axes.

    `fit` returns a curve with the attributes of `PowerLaw` that are used here. Not `sure`: a cell
    has one seed, so there is no interval and no band. A cross at the upper edge is an environment
    in which no temperature of the grid works. On logarithmic axes a whisker goes down to the grid's
    next value, below which the true one cannot be, and a triangle says that there is none: the true
    one is lower, or zero. The legend counts what is not a point.
    """
    if not any(points_at.values()):
        raise UserError("scaling: there is no minimal temperature to draw")
    for k, (threshold, points) in enumerate(points_at.items()):
        colour = PALETTE[k % len(PALETTE)]
        known = [p for p in points if p.known]
        shown = [p for p in known if p.value > 0 or not log]
        try:
            curve = fit(points)
        except UserError:
            curve = None
        # Every second marker is open and larger, so that equal points are seen inside each other.
        ax.plot(
            [p.max_return for p in shown],
            [p.value for p in shown],
            linestyle="",
            marker=MARKERS[k % len(MARKERS)],
            markersize=3.5 if k % 2 == 0 else 6.5,
            markerfacecolor=colour if k % 2 == 0 else "none",
            color=colour,
            label=_label(threshold, points, _line(curve, sure), log),
            # A value of zero lies on the edge. A series without points is clipped, or the layout
            # makes room for it.
            clip_on=not shown,
        )
        if log:
            _draw_brackets(known, ax, colour)
        hidden = [p for p in points if p.censored]
        if hidden:
            ax.plot(
                [p.max_return for p in hidden],
                [0.97 - 0.06 * k] * len(hidden),
                transform=ax.get_xaxis_transform(),
                linestyle="",
                marker="x",
                markersize=4,
                color=colour,
            )
        if curve is not None:
            low, high = curve.x.min(), curve.x.max()
            x = np.geomspace(low, high, 13) if log else np.linspace(low, high, 100)
            ax.plot(x, curve.line(x), color=colour, lw=1.0, linestyle="-" if k % 2 == 0 else "--")
            if sure:
                ax.fill_between(x, *curve.band(x), color=colour, alpha=0.15, lw=0)
    every = [point for points in points_at.values() for point in points]
    if not any(point.known for point in every):
        # Nothing to give the axis a scale.
        ax.set_yticks([])
        ax.set_xlim(0, 1.1 * max(point.max_return for point in every))
        ax.annotate("no value to show", (0.5, 0.5), xycoords="axes fraction", ha="center")
    elif log:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(_heights(point for point in every if point.known))
    else:
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
    symbol = r"$\alpha$" if temperature == "alpha" else r"$\lambda$"
    ax.set_xlabel("maximum return")
    ax.set_ylabel(f"smallest {symbol} that works")
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        borderaxespad=0.2,
        handletextpad=0.2,
        title="normalised return",
        alignment="left",
    )
    return ax


def pictures(table: RobustnessTable) -> Iterator[tuple[str, Figure | str]]:
    """Draw minimal temperatures of environments that were run with three reward scales or more."""
    for k, row in enumerate(table.rows):
        item = table.whole[row.label]
        temperatures: tuple[Temperature, ...] = (
            *(("alpha",) if item.axis == "alpha" else ()),
            *(("lam",) if item.lam_axis == "lam" else ()),
        )
        for name in dict.fromkeys(e.name for e in item.environments):
            labels = [e.label for e in item.environments if e.name == name]
            for temperature in temperatures if len(labels) >= 3 else ():
                try:
                    points = {
                        t: minimal_temperatures(item.select(labels), temperature, t)
                        for t in THRESHOLDS
                    }
                except UserError as error:
                    yield f"{item.label}, minimal {temperature} on {name}", str(error)
                    continue
                slug = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "environment"
                figure, ax = new(COLUMN)
                draw_scaling(points, ax, temperature=temperature)
                yield f"minimal_{temperature}_{slug}_{k + 1:02d}", figure
