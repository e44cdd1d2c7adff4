"""How far a mirror step of built-in regularisers can be from the minimum: a bound, in long floats."""

from __future__ import annotations

from typing import Any

import numpy as np

Long = np.longdouble


def slope(name: str, p: Any) -> Any:
    """The gradient of a separable potential, from its definition; constants are left out."""
    if name == "entropy":
        return np.log(p)
    if name in ("zero", "max"):
        return 0 * p
    family, parameter = name.rstrip(")").split("(")
    e = Long(parameter)
    if family == "tsallis":
        return np.log(p) if e == 1 else e * p ** (e - 1) / (e - 1)
    return e * p ** (e - 1)


def value(name: str, p: Any) -> Any:
    """The potential itself, with every constant."""
    if name == "zero":
        return Long(0)
    if name == "max":
        return p.max()
    if name in ("entropy", "tsallis(1)"):
        return (p * np.log(p)).sum()
    family, parameter = name.rstrip(")").split("(")
    e = Long(parameter)
    return (p**e - p).sum() / (e - 1) if family == "tsallis" else (p**e).sum()


def error_bound(p, q_values, q, h: str, d: str, alpha: float, lam: float) -> float:
    """Return an upper bound of f(p) - min f, over 1 + abs(f).

    With g in the subdifferential of f at p, f(p) - min f <= <g, p> - min g. A kink leaves a choice
    of g, and every choice gives a bound: the ones taken here level g as far as they can.
    """
    q_values, q = np.asarray(q_values, Long), np.asarray(q, Long)
    p = np.maximum(np.asarray(p, Long), Long(1e-300))
    p = p / p.sum()
    own = {"kl": "entropy"}.get(d, d[len("bregman(") : -1] if d.startswith("bregman") else "zero")
    g = -q_values + alpha * slope(h, p)
    f = -(q_values * p).sum() + alpha * value(h, p)
    peak = Long(alpha if h == "max" else 0)
    excess, kept = Long(0), np.ones(len(p), bool)
    if d == "forward_kl":
        g = g - lam * np.where(q > 0, q / p, 0)
        f = f + lam * np.where(q > 0, q * np.log(np.where(q > 0, q, 1) / p), 0).sum()
    elif d == "squared_tv":
        tv = np.maximum(p - q, 0).sum()
        f = f + lam * tv**2
        price = 2 * lam * tv
        at_kink = np.abs(p - q) <= 1e-12 * (1e-3 + q)
        mu = np.average(g + price * (p > q), weights=p * ~at_kink + 1e-30)
        share = np.where(at_kink, np.clip((mu - g) / max(price, Long(1e-300)), 0, 1), p > q)
        g = g + price * share
        excess += price * (tv - (share * (p - q)).sum())
    elif own == "max":
        j = int(np.argmax(q))
        peak, g = peak + lam, g - lam * (np.arange(len(p)) == j)
        f = f + lam * (p.max() - p[j])
    elif own != "zero":
        if own in ("entropy", "kl") or (own.startswith("tsallis") and float(own[8:-1]) <= 1):
            kept = q > 0
        at_q = slope(own, np.where(kept, q, 1))
        g = g + lam * np.where(kept, slope(own, p) - at_q, 0)
        at_q = np.where(kept, at_q, 0)
        f = f + lam * (value(own, p[kept]) - value(own, q[kept] + Long(0)) - (at_q * (p - q)).sum())
    if peak > 0:
        top = p >= p.max() * (1 - 1e-9)
        low, high = -g[top].max() - peak - 1, -g[top].min()
        for _ in range(300):
            middle = (low + high) / 2
            enough = np.maximum(-g[top] - middle, 0).sum() > peak
            low, high = (middle, high) if enough else (low, middle)
        share = np.where(top, np.maximum(-g - low, 0), 0)
        share = share / share.sum()
        g = g + peak * share
        excess += peak * (p.max() - (share * p).sum())
    gap = (p * (g - g[kept].min()))[kept].sum() + excess
    return float(gap / (1 + abs(f)))
