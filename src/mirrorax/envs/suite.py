"""The environments by name: their sizes and the returns between which a score is normalised.

Nothing here imports jax or gymnax, so that a study can be planned, stored and analysed without
them. `mirrorax.envs.adapter.make` turns a name into something that can be stepped.

Names, one spelling for each environment everywhere:

- `CartPole`, `Acrobot`, `Catch` (10 rows, 5 columns) or `Catch(20x10)`, `DeepSea` (8) or
  `DeepSea(16)`; gymnax's own names (`CartPole-v1`, `Catch-bsuite`, ...) mean the same.
- every other gymnax environment with discrete actions, under gymnax's name (`Breakout-MinAtar`);
- `gymnasium:LunarLander-v3`, one of Gymnasium's by its id and version, stepped on the host; plain
  values in brackets go to `gymnasium.make`;
- a name that a user registered (see `mirrorax.plugins`), or `package.module:attribute`: an
  `Environment`, or a class or function that makes one from the literals in brackets, if any:
  `Corridor(length=9)`, `module:Corridor(length=9)`. It is imported or made only when its bounds or
  its dynamics are asked for.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from mirrorax import plugins
from mirrorax.errors import UserError, in_one_line, nearest, unknown

#: gymnax's name -> ours
ALIASES = {
    "CartPole-v1": "CartPole",
    "Acrobot-v1": "Acrobot",
    "Catch-bsuite": "Catch",
    "DeepSea-bsuite": "DeepSea",
}

#: The four of the paper's suite, in its order.
SUITE = ("CartPole", "Acrobot", "Catch", "DeepSea")

# (low, high) of the paper's normalisation (its appendix on experiment details). Acrobot's upper
# bound is the level at which the paper calls it solved, not the largest possible return.
_BOUNDS = {
    "CartPole": (0.0, 500.0),
    "Acrobot": (-500.0, -75.0),
    "Catch": (-1.0, 1.0),
    "DeepSea": (0.0, 1.0),
}


class UnknownEnvironment(UserError):
    """No environment has this name."""


@dataclass(frozen=True)
class Known:
    """What is known of a gymnax environment without asking gymnax."""

    shape: tuple[int, ...]  # of one observation
    bounds: tuple[float, float] | None = None  # None: estimated, see `estimated_bounds`
    binary: bool = False  # the observation is a board of zeros and ones


# The other gymnax 1.0.1 environments with discrete actions. Bounds stand only where the rules of
# the environment give them: rewards in [0, 1] paid once (FrozenLake, FourRooms, the bandits'
# single pull), +1 or -1 at the end (MemoryChain, MNISTBandit; UmbrellaChain's other rewards are
# coin flips of mean zero that no policy changes), one reward of at most 1.1 (DiscountingChain), one
# for every step of at most 1000 (Pong). MountainCar's upper bound is the level at which
# Gymnasium's registry calls it solved. MinAtar's games have no known best return.
_GYMNAX = {
    "MountainCar-v0": Known((2,), (-200.0, -110.0)),
    "FrozenLake-misc": Known((1,), (0.0, 1.0)),
    "MemoryChain-bsuite": Known((3,), (-1.0, 1.0)),
    "DiscountingChain-bsuite": Known((2,), (0.0, 1.1)),
    "FourRooms-misc": Known((4,), (0.0, 1.0)),
    "UmbrellaChain-bsuite": Known((3,), (-1.0, 1.0)),
    "SimpleBandit-bsuite": Known((1, 1), (0.0, 1.0)),
    "MNISTBandit-bsuite": Known((28, 28), (-1.0, 1.0)),
    "MetaMaze-misc": Known((15,)),
    "BernoulliBandit-misc": Known((4,)),
    "GaussianBandit-misc": Known((4,)),
    "Pong-misc": Known((30, 40, 3), (0.0, 1000.0), binary=True),
    "Asterix-MinAtar": Known((10, 10, 4), binary=True),
    "Breakout-MinAtar": Known((10, 10, 4), binary=True),
    "Freeway-MinAtar": Known((10, 10, 7), binary=True),
    "Seaquest-MinAtar": Known((10, 10, 10), binary=True),
    "SpaceInvaders-MinAtar": Known((10, 10, 6), binary=True),
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
    "CartPole-v1": _BOUNDS["CartPole"],
    "Acrobot-v1": _BOUNDS["Acrobot"],
    "MountainCar-v0": (-200.0, -110.0),
    "FrozenLake-v1": (0.0, 1.0),
    "FrozenLake8x8-v1": (0.0, 1.0),
}

_DEFAULT_SIZE: dict[str, tuple[int, ...]] = {
    "CartPole": (),
    "Acrobot": (),
    "Catch": (10, 5),
    "DeepSea": (8,),
}
_LARGEST_SIDE = 255  # a row, and the one below the last, is remembered as a byte

_PATTERN = re.compile(r"(?P<family>[A-Za-z0-9-]+)\s*(?:\(\s*(?P<size>[^()]*?)\s*\))?")
_IMPORT_PATH = re.compile(r"(?P<path>[A-Za-z_][\w.]*:[A-Za-z_]\w*)(?P<call>\(.+\))?")
_GYMNASIUM = re.compile(r"gymnasium:(?P<id>[\w./-]+-v\d+)(?P<call>\(.+\))?", re.ASCII)
_OWN_NAME = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]*)\s*(?P<call>\(.+\))?")


@dataclass(frozen=True)
class EnvironmentSpec:
    """What is known of an environment by its name alone."""

    name: str
    family: str
    size: tuple[int, ...] = ()
    bounds: tuple[float, float] | None = None
    #: of one observation, where a table has it
    shape: tuple[int, ...] = ()
    #: whether the observation is a board of zeros and ones
    binary: bool = False

    def known_bounds(self) -> tuple[float, float] | None:
        """Return (low, high) where they are known beforehand, of unscaled rewards."""
        if self.bounds is not None or self.family != "own":
            return self.bounds
        found: tuple[float, float] | None = load(self.name).return_bounds
        return found

    def return_bounds(self, reward_scale: float = 1.0) -> tuple[float, float]:
        """Return (low, high), the returns that count as 0 and 1, for rewards times the scale."""
        known = self.known_bounds()
        if known is None:
            raise UserError(
                f"environment: the bounds of {self.name}'s returns are not known beforehand; "
                "they are estimated from a random policy and the best return seen"
            )
        return known[0] * reward_scale, known[1] * reward_scale

    @property
    def max_return(self) -> float:
        """The return that counts as 1, for unscaled rewards."""
        return self.return_bounds()[1]

    @property
    def min_return(self) -> float:
        """The return that counts as 0, for unscaled rewards."""
        return self.return_bounds()[0]

    def normalize(self, value: Any, reward_scale: Any = 1.0) -> Any:
        """Rescale returns linearly so that the bounds become 0 and 1; nothing is clipped."""
        low, high = self.return_bounds()
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


def makes_one(found: Any) -> bool:
    """Whether what a name stands for is a class or function that makes an environment."""
    return isinstance(found, type) or (callable(found) and not hasattr(found, "step"))


def load(path: str) -> Any:
    """Make a user's own environment, from `package.module:attribute` or a registered name."""
    match = _IMPORT_PATH.fullmatch(path)
    if match is None:
        own = _OWN_NAME.fullmatch(path)
        assert own is not None
        arguments, attribute = _arguments(path, own["call"]), own["name"]
        found = plugins.registered("environment", attribute)
    else:
        arguments = _arguments(path, match["call"])
        module_name, _, attribute = match["path"].partition(":")
        try:
            found = getattr(importlib.import_module(module_name), attribute)
        except Exception as error:  # a module of the user's may fail in any way
            raise UserError(f"environment: cannot import {path!r}: {in_one_line(error)}") from None
    made = found
    if arguments and (not callable(found) or hasattr(type(found), "step")):
        raise UserError(f"environment: {path!r}: {attribute} takes no values in brackets")
    if makes_one(found):
        _check_arguments(path, attribute, found, arguments)
        try:
            made = found(**arguments)
        except Exception as error:
            raise UserError(f"environment: cannot make {path!r}: {in_one_line(error)}") from None
    if not hasattr(made, "step"):
        raise UserError(f"environment: {path!r} is a {type(made).__name__}, not an Environment")
    if not hasattr(made, "return_bounds"):
        raise UserError(
            f"environment: {path!r} has no return_bounds: (low, high), the returns that count as 0 "
            "and 1, or None where nobody knows them"
        )
    if made.return_bounds is None:
        return made
    try:
        low, high = map(float, made.return_bounds)
    except (TypeError, ValueError):
        raise UserError(
            f"environment: {path!r} has return bounds {made.return_bounds!r}; need (low, high)"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"environment: {path!r} has return bounds ({low}, {high}); need low < high")
    return made


def _arguments(path: str, call: str | None) -> dict[str, Any]:
    """Read the `(length=9, ...)` of a path: named literals only."""
    if call is None:
        return {}
    try:
        parsed = ast.parse(f"f{call}", mode="eval").body
        if not isinstance(parsed, ast.Call) or parsed.args:
            raise ValueError
        return {str(given.arg): ast.literal_eval(given.value) for given in parsed.keywords}
    except (ValueError, SyntaxError):
        raise UserError(
            f"environment: {path!r}: in brackets stand named plain values, e.g. (length=9)"
        ) from None


def _check_arguments(path: str, name: str, made: Any, arguments: dict[str, Any]) -> None:
    """Refuse values in brackets that a class or function does not take."""
    try:
        taken = inspect.signature(made).parameters
    except (TypeError, ValueError):  # something built in
        return
    if any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return
    for given in arguments:
        if given not in taken:
            guess = nearest(given, taken)
            hint = f" (did you mean {guess!r}?)" if guess else ""
            allowed = ", ".join(taken) or "nothing"
            raise UserError(
                f"environment: {path!r}: {name} has no {given!r}{hint}; allowed: {allowed}"
            )


def _spelled(name: str, text: str, call: str | None) -> str:
    """Return the one spelling of a name with values in brackets."""
    given = ", ".join(f"{key}={value!r}" for key, value in _arguments(text, call).items())
    return f"{name}({given})" if given else name


def gymnasium_id(name: str) -> tuple[str, dict[str, Any]]:
    """Return the id of one of Gymnasium's environments, and what it is made with."""
    match = _GYMNASIUM.fullmatch(name)
    if match is None:
        raise UserError(
            f"environment: {name!r}: expected gymnasium: and an id with its version, "
            "e.g. gymnasium:LunarLander-v3"
        )
    return match["id"], _arguments(name, match["call"])


def register_environment(name: str, environment: Any) -> None:
    """Add an environment under a name: an `Environment`, or a class or function that makes one.

    Named plain values in brackets go to the class or function: `Corridor(length=9)`.
    """
    taken = (*_BOUNDS, *ALIASES, *_GYMNAX, *_CONTINUOUS)
    plugins.register("environment", name, environment, taken)


def plugin_of(name: str) -> plugins.Plugin | None:
    """Return the plugin that an environment comes from, if it comes from one."""
    if name.startswith("gymnasium:"):
        return _gymnasium_plugin(name)
    path = _IMPORT_PATH.fullmatch(name)
    if path is not None and is_path(name):
        return plugins.of_module(path["path"].partition(":")[0])
    own = _OWN_NAME.fullmatch(name)
    return plugins.owner("environment", own["name"]) if own is not None else None


def _gymnasium_plugin(name: str) -> plugins.Plugin | None:
    """Return the plugin that defines an environment which it registered with Gymnasium."""
    gymnasium = sys.modules.get("gymnasium")  # imported by now, if a plugin has registered any
    found = None if gymnasium is None else gymnasium.registry.get(gymnasium_id(name)[0])
    entry = getattr(found, "entry_point", None)
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return plugins.of_module(module or "")


def is_path(name: str) -> bool:
    """Whether a name is the `package.module:attribute` of a user's own environment."""
    return _IMPORT_PATH.fullmatch(name.strip()) is not None and not name.startswith("gymnasium:")


def import_from_here() -> None:
    """Let a command import modules of the current folder, as `python -m` would."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def _size(family: str, text: str, name: str) -> tuple[int, ...]:
    sides = len(_DEFAULT_SIZE[family])
    form = {1: "one whole number, e.g. DeepSea(16)", 2: "rows x columns, e.g. Catch(20x10)"}
    if sides == 0:
        raise UserError(f"environment: {name!r}: {family} has no size")
    parts = re.split(r"\s*[x,]\s*", text)
    if len(parts) != sides or not all(part.isascii() and part.isdigit() for part in parts):
        raise UserError(f"environment: {name!r}: the size is {form[sides]}")
    size = tuple(int(part) for part in parts)
    if not all(2 <= side <= _LARGEST_SIDE for side in size):
        raise UserError(f"environment: {name!r}: each side is between 2 and {_LARGEST_SIDE}")
    return size


def names() -> tuple[str, ...]:
    """Return the names a user can choose from (sizes and own environments apart)."""
    return (*SUITE, *_GYMNAX, *plugins.names("environment"))


def _unknown(name: str) -> UnknownEnvironment:
    """Build the error for a name that nothing explains."""
    allowed = (*names(), *ALIASES)
    if nearest(name, allowed, 0.7) is not None:
        return UnknownEnvironment(str(unknown("environment", name, allowed)))
    if re.fullmatch(r"[\w/.]+-v\d+", name):
        return UnknownEnvironment(
            f"environment: unknown value {name!r}; if it is one of Gymnasium's, write "
            f"gymnasium:{name}; allowed: {', '.join(allowed)}"
        )
    return UnknownEnvironment(
        str(unknown("environment", name, allowed, plugins.advice("environment")))
    )


def environment(name: str) -> EnvironmentSpec:
    """Look an environment up by any of its spellings; raise `UserError` if there is none."""
    if not isinstance(name, str):
        raise UserError(f"environment: expected a name, got {name!r}")
    text = name.strip()
    if text.startswith("gymnasium:"):
        task, _ = gymnasium_id(text)
        return EnvironmentSpec(
            name=_spelled(f"gymnasium:{task}", text, text[len(f"gymnasium:{task}") :] or None),
            family="gymnasium",
            bounds=_GYMNASIUM_BOUNDS.get(task),
        )
    if _IMPORT_PATH.fullmatch(text):
        return EnvironmentSpec(name=text, family="own")
    if text in _GYMNAX:
        known = _GYMNAX[text]
        return EnvironmentSpec(
            name=text,
            family="gymnax",
            bounds=known.bounds,
            shape=known.shape,
            binary=known.binary,
        )
    if text in _CONTINUOUS:
        raise UserError(f"environment: {text!r} has continuous actions; only discrete ones work")
    match = _PATTERN.fullmatch(text)
    family = ALIASES.get(match["family"], match["family"]) if match else ""
    if match is None or family not in _BOUNDS:
        own = _OWN_NAME.fullmatch(text)
        if own is not None and plugins.registered("environment", own["name"]) is not None:
            return EnvironmentSpec(name=_spelled(own["name"], text, own["call"]), family="own")
        raise _unknown(name)
    default = _DEFAULT_SIZE[family]
    size = default if match["size"] is None else _size(family, match["size"], name)
    canonical = family if size == default else f"{family}({'x'.join(map(str, size))})"
    return EnvironmentSpec(name=canonical, family=family, size=size, bounds=_BOUNDS[family])
