"""How far a mirror step is from the minimum: bounds that hold, in decimals of 50 digits.

With g a subgradient of a convex f at p, f(p) - min f <= <g, p> - min g, the duality gap.
"""

from __future__ import annotations

import decimal

import numpy as np
from families import Term, built_in, decimals

decimal.getcontext().prec = 50


def error_of(p, q_values, q, alpha, lam, h: Term, d: Term) -> float:
    """Return f(p) - min f over 1 + abs(f), from above, in decimals of 50 digits.

    The duality gap at p bounds it. Where one rounding of p makes a gap that is larger than the
    error, Newton's method goes on from p, with more digits, to a point whose gap is smaller.
    """
    p, q, q_values, alpha, lam = map(decimals, (np.maximum(p, 1e-300), q, q_values, alpha, lam))

    def value(p):
        f = -(q_values * p).sum()
        f = f + alpha * h.value(p, q) if alpha else f
        return f + lam * d.value(p, q) if lam else f

    def slopes(p):
        g = -q_values
        g = g + alpha * h.grad(p, q) if alpha else g
        return g + lam * d.grad(p, q) if lam else g

    p = summing_to_one(p)
    size, point, error = 1 + abs(value(p)), p, np.inf
    for _ in range(30):
        g = slopes(point)
        lost = value(p) - value(point) if point is not p else 0
        error = min(error, float((lost + (point * (g - g.min())).sum()) / size))
        if error <= 1e-9:
            break
        point = newton(point, slopes, g, size * decimals(1e-14))
    return error


def newton(p, slopes, g, t):
    """Take one step of the barrier method, with a Hessian by differences, in relative steps."""
    step = decimals(1e-15)
    unit = decimals(np.eye(len(p)))
    changes = [slopes(p * (1 + step * e)) - slopes(p * (1 - step * e)) for e in unit]
    slack = p * (g - (p * g).sum())
    hessian = np.array([change * p / (2 * step) for change in changes], float)
    diagonal = np.maximum(np.asarray(slack, float), float(t))
    root = np.sqrt(np.maximum(np.diag(hessian), 0) + diagonal)
    matrix = (hessian + hessian.T) / 2 / root / root[:, None] + np.diag(diagonal / root**2)
    across = np.asarray(p, float) / root
    size = np.abs(across).max()
    system = np.block([[matrix, across[:, None] / size], [across / size, np.zeros((1, 1))]])
    right = np.append(np.asarray(t - slack, float) / root, 0)
    x = np.linalg.lstsq(system, right)[0][:-1] / root
    return summing_to_one(p * (1 + decimals(min(1, 0.99 / max(-x.min(), 1e-300)) * x)))


def summing_to_one(p):
    """Correct the largest entry: a small one may be known to more digits than the sum."""
    p = p.copy()
    p[p.argmax()] += 1 - p.sum()
    return p


def error_with_kinks(p, q_values, q, h: str, d: str, alpha: float, lam: float) -> float:
    """Return the same bound for built-in pairs with max or squared_tv.

    A kink leaves a choice of g, and every choice gives a bound. The one taken levels g.
    """
    p, q, q_values, alpha, lam = map(decimals, (np.maximum(p, 1e-300), q, q_values, alpha, lam))
    p = summing_to_one(p)
    kept = np.ones(len(p), bool)
    f, g, excess = -(q_values * p).sum(), -q_values, 0
    peak = decimals(0)
    if h == "max":
        peak += alpha
    elif alpha:
        term = built_in(h)
        f, g = f + alpha * term.value(p, q), g + alpha * term.grad(p, q)
    if d == "squared_tv":
        tv = np.maximum(p - q, 0).sum()
        price = 2 * lam * tv
        at_kink = np.abs(p - q) <= decimals(1e-12)
        free = p * ~at_kink
        mu = (free * (g + price * (p > q))).sum() / free.sum() if free.sum() else g.mean()
        share = np.where(at_kink, np.clip((mu - g) / (price or 1), 0, 1), (p > q) * decimals(1))
        f, g = f + lam * tv**2, g + price * share
        excess += price * (tv - (share * (p - q)).sum())
    elif d == "bregman(max)":
        chosen = np.arange(len(p)) == q.argmax()
        peak, g = peak + lam, g - lam * chosen
        f += lam * (p.max() - p[q.argmax()])
    elif d == "forward_kl":
        kept = q > 0
        g = g - lam * q / p
        f += lam * built_in(d).value(p[kept], q[kept])
        kept = np.ones(len(p), bool)
    elif d != "zero":
        term = built_in(d)
        kept = q > 0  # the drifts used here are steep, or the policies have no zeros
        f += lam * term.value(p[kept], q[kept])
        g = g.copy()
        g[kept] += lam * term.grad(p[kept], q[kept])
    if peak:
        top = p >= p.max() * decimals(1 - 1e-9)
        low, high = (-g[top]).min() - peak, (-g[top]).max()
        for _ in range(160):
            middle = (low + high) / 2
            enough = np.maximum(-g[top] - middle, 0).sum() > peak
            low, high = (middle, high) if enough else (low, middle)
        share = np.where(top, np.maximum(-g - low, 0), 0)
        share = share / share.sum()
        g = g + peak * share
        excess += peak * (p.max() - (share * p).sum())
    gap = (p * (g - g[kept].min()))[kept].sum() + excess
    return float(gap / (1 + abs(f)))
