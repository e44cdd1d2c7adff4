"""One spelling for every regulariser: in Python, TOML, on the command line, in the store, on plots.

    potential:  entropy | tsallis(m) | lp(p) | max | to(mu, <drift>) | zero | a registered name
    drift:      kl | forward_kl | bregman(<potential>) | chi_square | squared_tv | zero |
                ppo_clip(eps) | dpo | dpo(a, b) | a registered name

This module knows the spellings and the allowed parameters, and nothing of arrays: it never imports
jax, so that a study can be read and checked anywhere. `build` makes the objects.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mirrorax import registry
from mirrorax.errors import UserError, nearest, shown

Kind = Literal["potential", "drift"]


@dataclass(frozen=True)
class Spelling:
    """How one regulariser is written: `name`, or `name(parameter)`."""

    name: str
    target: str  # the class, as "module:attribute"
    #: what the arguments are called, with commas: `potential` and `drift` nest one, `mu` is a word
    #: of `REFERENCES`, any other is a number
    parameter: str | None = None
    allowed: str = ""  # the range in words
    accepts: Callable[[float], bool] = lambda value: True
    example: str = ""  # valid arguments, for hints
    #: whether the arguments may be left out
    optional: bool = False
    #: whether it is a functional of the advantages of the actions taken
    sees_advantages: bool = False

    @property
    def form(self) -> str:
        """The spelling with its parameters, as one word; without them where it needs none."""
        if self.parameter is None or self.optional:
            return self.name
        return f"{self.name}({self.parameter.replace(' ', '')})"

    @property
    def defaults(self) -> tuple[float, ...] | None:
        """The arguments that stand for none, where they may be left out."""
        return tuple(map(float, self.example.split(", "))) if self.optional else None

    @property
    def help(self) -> str:
        """The form with the range of its parameter."""
        full = f"{self.form} or {self.name}({self.parameter})" if self.optional else self.form
        return f"{full} with {self.allowed}" if self.allowed else full


_POTENTIALS = "mirrorax.regularizers.potentials"
_DRIFTS = "mirrorax.regularizers.drifts"
_FUNCTIONALS = "mirrorax.regularizers.functionals"

#: the reference policies of `to` that a name can choose
REFERENCES = ("uniform", "policy")

_SPELLINGS: dict[Kind, tuple[Spelling, ...]] = {
    "potential": (
        Spelling("entropy", f"{_POTENTIALS}:NegativeEntropy"),
        Spelling("tsallis", f"{_POTENTIALS}:NegativeTsallis", "m", "m > 0", lambda m: m > 0, "0.5"),
        Spelling("lp", f"{_POTENTIALS}:LpNorm", "p", "p >= 1", lambda p: p >= 1, "1"),
        Spelling("max", f"{_POTENTIALS}:Max"),
        Spelling("to", "mirrorax.regularizers.reference:to", "mu, drift", example="uniform, kl"),
        Spelling("zero", f"{_POTENTIALS}:Zero"),
    ),
    "drift": (
        Spelling("kl", f"{_DRIFTS}:KL"),
        Spelling("forward_kl", f"{_DRIFTS}:ForwardKL"),
        Spelling("bregman", f"{_DRIFTS}:Bregman", "potential", example="entropy"),
        Spelling("chi_square", f"{_DRIFTS}:ChiSquare"),
        Spelling("squared_tv", f"{_DRIFTS}:SquaredTV"),
        Spelling("zero", f"{_DRIFTS}:Zero"),
        Spelling(
            "ppo_clip",
            f"{_FUNCTIONALS}:PPOClip",
            "eps",
            "eps > 0",
            lambda eps: eps > 0,
            "0.2",
            sees_advantages=True,
        ),
        Spelling(
            "dpo",
            f"{_FUNCTIONALS}:DPO",
            "a, b",
            "a, b > 0",
            lambda value: value > 0,
            "2, 0.6",
            optional=True,
            sees_advantages=True,
        ),
    ),
}
_BUILT_IN = {kind: {s.name: s for s in spellings} for kind, spellings in _SPELLINGS.items()}

#: other names of the same thing, for hints: there is one spelling
_ALSO_CALLED: dict[Kind, dict[str, str]] = {
    "potential": {"shannon": "entropy", "l2": "lp(2)", "norm": "lp(2)", "none": "zero"},
    "drift": {
        "reverse_kl": "kl",
        "tv": "squared_tv",
        "l2": "bregman(lp(2))",
        "none": "zero",
        "chi2": "chi_square",
        "ppo": "ppo_clip",
        "clip": "ppo_clip",
    },
}

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")
_FORM = re.compile(r"\s*([^()]*?)\s*(?:\((.*)\))?\s*", re.DOTALL)
_LONGEST = 200  # characters of a name with its parameter


@dataclass(frozen=True)
class Name:
    """A parsed, valid spelling. `str()` gives the canonical form back."""

    kind: Kind
    name: str
    arguments: tuple[float | str | Name, ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        texts = (number(x) if isinstance(x, float) else str(x) for x in self.arguments)
        return f"{self.name}({', '.join(texts)})"


def number(value: float) -> str:
    """Write a parameter the one way it is written: the shortest digits, no trailing `.0`."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def names(kind: Kind) -> list[str]:
    """List the forms that are understood now, the registered ones included."""
    return [*(s.form for s in _BUILT_IN[kind].values()), *registry.names(kind)]


def _words(kind: Kind) -> list[str]:
    """List the names that are known now, without parameters."""
    return [*_BUILT_IN[kind], *registry.names(kind)]


def _choices(kind: Kind) -> str:
    return ", ".join([*(s.help for s in _BUILT_IN[kind].values()), *registry.names(kind)])


def parse_potential(text: object, field: str = "potential") -> Name:
    """Read a potential's name; a `UserError` that starts with `field` if it is not one."""
    return _parse(text, "potential", field)


def parse_drift(text: object, field: str = "drift") -> Name:
    """Read a drift's name; a `UserError` that starts with `field` if it is not one."""
    return _parse(text, "drift", field)


def _parse(text: object, kind: Kind, field: str) -> Name:
    if not isinstance(text, str):
        raise UserError(f"{field}: {shown(text)} is not a name; allowed: {_choices(kind)}")
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise UserError(
            f"{field}: {shown(text)}: expected a name, or a name and its parameter in brackets; "
            f"allowed: {_choices(kind)}"
        )
    word, inside = match[1], match[2]
    spelling = _BUILT_IN[kind].get(word)
    if spelling is None and registry.registered(kind, word) is None:
        raise _unknown(text, word, kind, field)
    if spelling is None or spelling.parameter is None:
        if inside is not None:
            raise UserError(f"{field}: {text!r}: {word} takes no parameter; write {word!r}")
        return Name(kind, word)
    if inside is None and spelling.optional:
        return Name(kind, word)
    if inside is None or not inside.strip():
        raise UserError(
            f"{field}: {text!r}: {word} needs its parameter: {spelling.help}; "
            f"for example '{word}({spelling.example})'"
        )
    parameters, texts = spelling.parameter.split(", "), _split(inside)
    if len(texts) != len(parameters):
        raise UserError(
            f"{field}: {text!r}: {word} takes {spelling.parameter}; "
            f"for example '{word}({spelling.example})'"
        )
    arguments = tuple(
        _argument(text, parameter, inner, spelling, field)
        for parameter, inner in zip(parameters, texts, strict=True)
    )
    if arguments == spelling.defaults:
        return Name(kind, word)
    return Name(kind, word, arguments)


def _split(inside: str) -> list[str]:
    """Cut at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for letter in inside:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _argument(
    text: str, parameter: str, inside: str, spelling: Spelling, field: str
) -> float | str | Name:
    if parameter in ("potential", "drift"):
        nested: Kind = "potential" if parameter == "potential" else "drift"
        name = _parse(inside, nested, f"{field}: in {text!r}")
        if sees_advantages(name):
            raise UserError(
                f"{field}: in {text!r}: {str(name)!r} sees advantages, and is no function of two "
                "policies"
            )
        return name
    if parameter == "mu":
        if inside.strip() not in REFERENCES:
            raise UserError(
                f"{field}: in {text!r}: unknown reference {inside.strip()!r}; allowed: "
                f"{', '.join(REFERENCES)}"
            )
        return inside.strip()
    value = float(inside) if _NUMBER.fullmatch(inside.strip()) else math.nan
    if not math.isfinite(value) or not spelling.accepts(value):
        raise UserError(
            f"{field}: {text!r}: {parameter} = {inside.strip()} is not allowed: "
            f"{spelling.allowed}, a finite number; "
            f"nearest valid: '{spelling.name}({spelling.example})'"
        )
    return value


def sees_advantages(name: Name) -> bool:
    """Whether a drift is a functional of the advantages of the actions taken."""
    spelling = _BUILT_IN[name.kind].get(name.name)
    if spelling is not None:
        return spelling.sees_advantages
    return bool(getattr(registry.registered(name.kind, name.name), "sees_advantages", False))


def _unknown(text: str, word: str, kind: Kind, field: str) -> UserError:
    other: Kind = "drift" if kind == "potential" else "potential"
    if word in _words(other):
        advice = f"; as a drift write 'bregman({text.strip()})'" if kind == "drift" else ""
        return UserError(
            f"{field}: {text!r} is a {other}, not a {kind}{advice}; allowed: {_choices(kind)}"
        )
    if kind == "drift" and (near := nearest(word, _words(other))):
        inner = _completed(text, near, other)
        if nearest(word, _words(kind)) is None:
            return UserError(
                f"{field}: unknown drift {text!r} (did you mean 'bregman({inner})'?); "
                f"allowed: {_choices(kind)}"
            )
    guess = _ALSO_CALLED[kind].get(word.lower()) or nearest(word, _words(kind))
    hint = f" (did you mean {_completed(text, guess, kind)!r}?)" if guess else ""
    if not guess and (advice := registry.advice(kind)):
        hint += f"; {advice}"
    return UserError(f"{field}: unknown {kind} {text!r}{hint}; allowed: {_choices(kind)}")


def _completed(text: str, guess: str, kind: Kind) -> str:
    """Return a valid spelling with the guessed word: with the parameter given, if that is one."""
    spelling = _BUILT_IN[kind].get(guess)
    if spelling is None or spelling.parameter is None:
        return guess
    parameter = text[text.find("(") :] if "(" in text else ""
    try:
        return str(_parse(guess + parameter, kind, ""))
    except UserError:
        return f"{guess}({spelling.example})"


def build(name: Name) -> Any:
    """Make the object a name stands for."""
    if name.name not in _BUILT_IN[name.kind]:
        return registry.registered(name.kind, name.name)
    module, _, attribute = _BUILT_IN[name.kind][name.name].target.partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    return cls(*(build(x) if isinstance(x, Name) else x for x in name.arguments))


def register(kind: Kind, name: str, regulariser: object, function: object) -> None:
    """Give a user's regulariser, which wraps a function, its name."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise UserError(
            f"{kind} name: {name!r} is not allowed: lower-case letters, digits and underscores, "
            "a letter first"
        )
    registry.register(kind, name, regulariser, _BUILT_IN[kind], definition=function)


def plugins_of(name: Name) -> set[str]:
    """Return the identities of the plugins that a regulariser comes from."""
    nested = (plugins_of(x) for x in name.arguments if isinstance(x, Name))
    inner: set[str] = set().union(*nested)
    owner = registry.owner(name.kind, name.name)
    return inner if owner is None else inner | {str(owner)}
