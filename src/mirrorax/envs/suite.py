"""The environments by name: their sizes and the returns between which a score is normalised.

Nothing here imports jax or gymnax, so that a study can be planned, stored and analysed without
them. `mirrorax.envs.adapter.make` turns a name into something that can be stepped.

Names, one spelling for each environment everywhere:

- `CartPole`, `Acrobot`, `Catch` (10 rows, 5 columns) or `Catch(20x10)`, `DeepSea` (8) or
  `DeepSea(16)`; gymnax's own names (`CartPole-v1`, `Catch-bsuite`, ...) mean the same.
- every other gymnax environment with discrete actions, under gymnax's name (`Breakout-MinAtar`);
- `gymnasium:LunarLander-v3`, one of Gymnasium's registry by its id and version, stepped on the
  host; plain values in brackets go to `gymnasium.make`;
- a name that a user registered (see `mirrorax.plugins`): an `Environment`, or a class or function
  that makes one from the literals in brackets, if any: `Corridor(length=9)`. It is made only when
  its bounds or its dynamics are needed.

A name selects; it never imports code. `module:Class` is only the label of an object that was passed
to `mirrorax.train` in place of a name: it means that object in the same process (`adopt`).
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, replace
from typing import Any

from mirrorax import plugins, registry
from mirrorax.errors import UserError, nearest, shown

#: gymnax's name -> ours
ALIASES = {
    "CartPole-v1": "CartPole",
    "Acrobot-v1": "Acrobot",
    "Catch-bsuite": "Catch",
    "DeepSea-bsuite": "DeepSea",
}


class UnknownEnvironment(UserError):
    """No environment has this name."""


@dataclass(frozen=True)
class EnvironmentSpec:
    """What is known of an environment by its name alone."""

    name: str
    family: str
    #: (low, high), of unscaled rewards; None where the name does not say them
    bounds: tuple[float, float] | None = None
    size: tuple[int, ...] = ()
    #: whether the observation is a board of zeros and ones
    binary: bool = False


# The four of the paper's suite, in its order, with the bounds of its normalisation (its appendix on
# experiment details). Acrobot's upper bound is the level at which the paper calls it solved, not
# the largest possible return.
_OURS = {
    spec.name: spec
    for spec in (
        EnvironmentSpec("CartPole", "CartPole", (0.0, 500.0)),
        EnvironmentSpec("Acrobot", "Acrobot", (-500.0, -75.0)),
        EnvironmentSpec("Catch", "Catch", (-1.0, 1.0), (10, 5)),
        EnvironmentSpec("DeepSea", "DeepSea", (0.0, 1.0), (8,)),
    )
}
#: The four of the paper's suite, in its order.
SUITE = tuple(_OURS)
#: Mean returns of a policy that chooses all actions alike, from thousands of episodes.
_RANDOM = {"CartPole": 22.2, "Acrobot": -499.1, "Catch": -0.6, "DeepSea": -0.001}


# The other gymnax 1.0.1 environments with discrete actions. Bounds stand only where the rules of
# the environment give them: rewards in [0, 1] paid once (FrozenLake, FourRooms, the bandits'
# single pull), +1 or -1 at the end (MemoryChain, MNISTBandit; UmbrellaChain's other rewards are
# coin flips of mean zero that no policy changes), one reward of at most 1.1 (DiscountingChain), one
# for every step of at most 1000 (Pong). MountainCar's upper bound is the level at which
# Gymnasium's registry calls it solved. MinAtar's games have no known best return.
_GYMNAX = {
    spec.name: spec
    for spec in (
        EnvironmentSpec("MountainCar-v0", "gymnax", (-200.0, -110.0)),
        EnvironmentSpec("FrozenLake-misc", "gymnax", (0.0, 1.0)),
        EnvironmentSpec("MemoryChain-bsuite", "gymnax", (-1.0, 1.0)),
        EnvironmentSpec("DiscountingChain-bsuite", "gymnax", (0.0, 1.1)),
        EnvironmentSpec("FourRooms-misc", "gymnax", (0.0, 1.0)),
        EnvironmentSpec("UmbrellaChain-bsuite", "gymnax", (-1.0, 1.0)),
        EnvironmentSpec("SimpleBandit-bsuite", "gymnax", (0.0, 1.0)),
        EnvironmentSpec("MNISTBandit-bsuite", "gymnax", (-1.0, 1.0)),
        EnvironmentSpec("MetaMaze-misc", "gymnax"),
        EnvironmentSpec("BernoulliBandit-misc", "gymnax"),
        EnvironmentSpec("GaussianBandit-misc", "gymnax"),
        EnvironmentSpec("Pong-misc", "gymnax", (0.0, 1000.0), binary=True),
        EnvironmentSpec("Asterix-MinAtar", "gymnax", binary=True),
        EnvironmentSpec("Breakout-MinAtar", "gymnax", binary=True),
        EnvironmentSpec("Freeway-MinAtar", "gymnax", binary=True),
        EnvironmentSpec("Seaquest-MinAtar", "gymnax", binary=True),
        EnvironmentSpec("SpaceInvaders-MinAtar", "gymnax", binary=True),
    )
}

#: gymnax environments that cannot be trained here, for a clear word about them
_CONTINUOUS = (
    "Pendulum-v1",
    "MountainCarContinuous-v0",
    "PointRobot-misc",
    "Reacher-misc",
    "Swimmer-misc",
)

# Gymnasium's environments with the bounds of the same task above.
_GYMNASIUM_BOUNDS = {
    "CartPole-v1": _OURS["CartPole"].bounds,
    "Acrobot-v1": _OURS["Acrobot"].bounds,
    "MountainCar-v0": (-200.0, -110.0),
    "FrozenLake-v1": (0.0, 1.0),
    "FrozenLake8x8-v1": (0.0, 1.0),
}

_LARGEST_SIDE = 255  # a row, and the one below the last, is remembered as a byte

_PATTERN = re.compile(r"(?P<family>[A-Za-z0-9-]+)\s*(?:\(\s*(?P<size>[^()]*?)\s*\))?")
_GYMNASIUM = re.compile(
    r"gymnasium:(?P<id>(?:[\w-]+/)?[\w.-]+-v\d{1,4})(?:\((?P<inside>.+)\))?", re.ASCII
)
# Gymnasium's adapters of old environments make what another id names, and would import it.
_ADAPTERS = ("GymV21Environment", "GymV26Environment")
_WORD = re.compile(r"[\w -]{0,64}", re.ASCII)  # no path, no module: text for Gymnasium


def random_score(name: str) -> float | None:
    """Return the score of a random policy, where it is known."""
    known = _RANDOM.get(name)
    bounds = _OURS[name].bounds if known is not None else None
    return None if bounds is None or known is None else float(normalize(known, bounds))


def normalize(value: Any, bounds: tuple[Any, Any], reward_scale: Any = 1.0) -> Any:
    """Rescale returns linearly so that the bounds of unscaled returns become 0 and 1."""
    low, high = bounds
    return (value / reward_scale - low) / (high - low)


def estimated_bounds(low: float, best: float) -> tuple[float, float]:
    """Return bounds where none are known: a random policy's return, and the best that was seen.

    Where nothing better than the random policy was seen, a score is the distance to it in units of
    return.
    """
    return low, best if best > low else low + 1.0


def estimated_in_words(low: float, high: float) -> str:
    """Say what estimated bounds mean."""
    above = f"1 the best mean return of a run here ({high:.4g})"
    if high == low + 1.0:
        above = f"1 is a return of one more ({high:.4g}), for no run here was better than random"
    return f"0 is a random policy's return ({low:.4g}), {above}"


def load(name: str) -> Any:
    """Make a user's own environment, from a registered name."""
    where = f"environment: {name!r}"
    env = registry.select("environment", name, "environment")
    if not (hasattr(env, "step") or hasattr(env, "make")):
        raise UserError(f"{where} is a {type(env).__name__}, not an Environment")
    if not hasattr(env, "return_bounds"):
        raise UserError(
            f"{where} has no return_bounds: (low, high), the returns that count as 0 and 1, or "
            "None where they are not known"
        )
    check_bounds(env.return_bounds, where)
    return env


def check_bounds(bounds: Any, where: str) -> None:
    """Refuse bounds of returns that are neither None nor (low, high) with low < high."""
    if bounds is None:
        return  # not known
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"{where}: return_bounds are {bounds!r}, expected (low, high), low < high")


def gymnasium_id(name: str) -> tuple[str, dict[str, Any]]:
    """Return the id of one of Gymnasium's environments, and the values in its brackets."""
    match = _GYMNASIUM.fullmatch(name)
    if match is None or match["id"].startswith(_ADAPTERS):
        raise UserError(
            f"environment: {shown(name)}: expected gymnasium: and an id of its registry with its "
            "version, e.g. gymnasium:LunarLander-v3"
        )
    values = registry.read_values(name, match["inside"], "environment")
    for key, value in values.items():
        if isinstance(value, str) and not _WORD.fullmatch(value):
            raise UserError(
                f"environment: {shown(name)}: {key}: {shown(value)}: text for Gymnasium has "
                "letters, digits, spaces, _ and - only"
            )
    return match["id"], values


def register_environment(name: str, environment: Any) -> None:
    """Add an environment under a name: an `Environment`, or a class or function that makes one.

    Named plain values in brackets go to the class or function: `Corridor(length=9)`.
    """
    taken = (*_OURS, *ALIASES, *_GYMNAX, *_CONTINUOUS)
    registry.register("environment", name, environment, taken)


def plugin_of(name: str) -> plugins.Plugin | None:
    """Return the plugin that an environment comes from, if it comes from one."""
    if name.startswith("gymnasium:"):
        return _gymnasium_plugin(name)
    return registry.owner("environment", name)


def _gymnasium_plugin(name: str) -> plugins.Plugin | None:
    """Return the plugin that defines an environment which it registered with Gymnasium."""
    gymnasium = sys.modules.get("gymnasium")  # imported by now, if a plugin has registered any
    entry = None if gymnasium is None else gymnasium.registry.get(gymnasium_id(name)[0])
    entry = getattr(entry, "entry_point", None)
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return plugins.of_module(module or "")


def _size(family: str, text: str, name: str) -> tuple[int, ...]:
    sides = len(_OURS[family].size)
    form = {1: "one whole number, e.g. DeepSea(16)", 2: "rows x columns, e.g. Catch(20x10)"}
    if sides == 0:
        raise UserError(f"environment: {name!r}: {family} has no size")
    parts = re.split(r"\s*[x,]\s*", text)
    if len(parts) != sides or not all(part.isascii() and part.isdigit() for part in parts):
        raise UserError(f"environment: {name!r}: the size is {form[sides]}")
    size = tuple(int(part) if len(part) < 9 else 10**9 for part in parts)
    if not all(2 <= side <= _LARGEST_SIDE for side in size):
        raise UserError(f"environment: {name!r}: each side is between 2 and {_LARGEST_SIDE}")
    return size


def names() -> tuple[str, ...]:
    """Return the names a user can choose from (sizes and own environments apart)."""
    return (*SUITE, *_GYMNAX, *registry.names("environment"))


def _unknown(name: str) -> UnknownEnvironment:
    """Build the error for a name that nothing explains."""
    if path := registry.path_advice(name):
        return UnknownEnvironment(f"environment: unknown value {shown(name)}{path}")
    few = (*SUITE, *registry.names("environment"))
    allowed = f"allowed: {', '.join(few)}, and others: see 'mirrorax list environments'"
    likely = nearest(name, (*names(), *ALIASES), 0.7)
    if likely is not None:
        advice = f" (did you mean {likely!r}?)"
    elif re.fullmatch(r"[\w/.]+-v\d+", name):
        advice = f"; if it is one of Gymnasium's, write gymnasium:{name}"
    else:
        advice = f"; {registry.advice('environment')}"
    return UnknownEnvironment(f"environment: unknown value {shown(name)}{advice}; {allowed}")


def environment(name: str) -> EnvironmentSpec:
    """Look an environment up by any of its spellings; raise `UserError` if there is none."""
    if not isinstance(name, str):
        raise UserError(f"environment: expected a name, got {shown(name)}")
    text = name.strip()
    if text.startswith("gymnasium:"):
        task, values = gymnasium_id(text)
        canonical = str(registry.Choice(f"gymnasium:{task}", values))
        return EnvironmentSpec(canonical, "gymnasium", _GYMNASIUM_BOUNDS.get(task))
    if text in _GYMNAX:
        return _GYMNAX[text]
    if text in _CONTINUOUS:
        raise UserError(f"environment: {text!r} has continuous actions; only discrete ones work")
    match = _PATTERN.fullmatch(text)
    ours = _OURS.get(ALIASES.get(match["family"], match["family"])) if match else None
    if match is None or ours is None:
        own = registry.choose("environment", text, "environment")
        if own is None:
            raise _unknown(name)
        return EnvironmentSpec(str(own), "own")
    size = ours.size if match["size"] is None else _size(ours.family, match["size"], name)
    if size == ours.size:
        return ours
    return replace(ours, name=f"{ours.family}({'x'.join(map(str, size))})", size=size)
