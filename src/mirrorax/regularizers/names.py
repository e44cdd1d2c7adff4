"""One spelling for every regulariser: in Python, TOML, on the command line, in the store, on plots.

A name is one word, or has parameters in brackets: `entropy`, `tsallis(0.5)`, `to(uniform, kl)`,
`bregman(lp(2))`. `_SPELLINGS` declares the built-in names; users register others.

This module knows spellings and allowed parameters. It never imports jax, so a study can be read and
checked anywhere. `build` makes the objects.
"""

from __future__ import annotations

import importlib
import math
import re
from dataclasses import dataclass, fields
from typing import Any, Literal

from mirrorax import registry
from mirrorax.errors import UserError, nearest, shown

Kind = Literal["potential", "drift"]

#: the reference policies that a name can give to `to`
REFERENCES = ("uniform", "policy")


@dataclass(frozen=True)
class Spelling:
    """How one regulariser is written, and the class that implements it."""

    name: str
    target: str  # the class, as "module:attribute"
    about: str  # what it is, for `mirrorax list`
    #: what is in the brackets: `potential` and `drift` nest one, `mu` is a word of `REFERENCES`,
    #: any other is a number with its condition, such as `m > 0`
    parameters: tuple[str, ...] = ()
    example: str = ""  # valid arguments in their canonical form, for hints
    #: whether the arguments may be left out; they are then those of `example`
    optional: bool = False
    #: whether it is a functional of the advantages of the actions taken
    sees_advantages: bool = False

    @property
    def words(self) -> list[str]:
        """The names of the parameters: ["m"]."""
        return [parameter.partition(" ")[0] for parameter in self.parameters]

    @property
    def form(self) -> str:
        """The spelling as one word, `tsallis(m)`; without parameters where it needs none."""
        plain = self.optional or not self.parameters
        return self.name if plain else f"{self.name}({','.join(self.words)})"

    @property
    def help(self) -> str:
        """The form with the conditions of its parameters."""
        full = (
            f"{self.name} or {self.name}({', '.join(self.words)})" if self.optional else self.form
        )
        conditions = ", ".join(each for each in self.parameters if " " in each)
        return f"{full} with {conditions}" if conditions else full


_SPELLINGS: dict[Kind, tuple[Spelling, ...]] = {
    "potential": (
        Spelling("entropy", "potentials:NegativeEntropy", "negative Shannon entropy, sum p log p"),
        Spelling(
            "tsallis",
            "potentials:NegativeTsallis",
            "negative Tsallis entropy of order m > 0; m -> 1 is entropy",
            ("m > 0",),
            "0.5",
        ),
        Spelling(
            "lp",
            "potentials:LpNorm",
            "sum of the p-th powers of the probabilities, p >= 1",
            ("p >= 1",),
            "1",
        ),
        Spelling("max", "potentials:Max", "the largest probability"),
        Spelling(
            "to",
            "reference:to",
            "distance from a reference: to(uniform, kl); to(policy, kl) with --reference",
            ("mu", "drift"),
            "uniform, kl",
        ),
        Spelling("zero", "potentials:Zero", "no potential"),
    ),
    "drift": (
        Spelling("kl", "drifts:KL", "KL(p, pi_k), the Bregman divergence of entropy"),
        Spelling("forward_kl", "drifts:ForwardKL", "KL(pi_k, p), with the arguments exchanged"),
        Spelling(
            "bregman",
            "drifts:Bregman",
            "the Bregman divergence of a potential, e.g. bregman(lp(2))",
            ("potential",),
            "entropy",
        ),
        Spelling(
            "chi_square", "drifts:ChiSquare", "chi-square divergence, sum (p - pi_k)^2 / pi_k"
        ),
        Spelling("squared_tv", "drifts:SquaredTV", "squared total variation distance"),
        Spelling("zero", "drifts:Zero", "no drift"),
        Spelling(
            "ppo_clip",
            "functionals:PPOClip",
            "on-policy: what PPO's clipping takes away; PPO with lam 1",
            ("eps > 0",),
            "0.2",
            sees_advantages=True,
        ),
        Spelling(
            "dpo",
            "functionals:DPO",
            "on-policy: Discovered Policy Optimisation; dpo(a, b) sets its two numbers",
            ("a > 0", "b > 0"),
            "2, 0.6",
            optional=True,
            sees_advantages=True,
        ),
    ),
}
BUILT_IN = {kind: {s.name: s for s in spellings} for kind, spellings in _SPELLINGS.items()}

#: other common names, which are not accepted but give a hint
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
_FORM = re.compile(r"\s*([^()]*?)\s*(?:\((.*)\))?\s*", re.DOTALL)
_LONGEST = 200  # characters of a name with its parameter


@dataclass(frozen=True)
class Name:
    """A parsed, valid spelling. `str()` gives the canonical form back."""

    kind: Kind
    name: str
    arguments: tuple[float | str | Name, ...] = ()

    def __str__(self) -> str:
        texts = (number(x) if isinstance(x, float) else str(x) for x in self.arguments)
        inside, spelling = ", ".join(texts), BUILT_IN[self.kind].get(self.name)
        default = spelling.example if spelling and spelling.optional else ""
        return self.name if inside == default or not inside else f"{self.name}({inside})"


def number(value: float) -> str:
    """Write a parameter in its canonical form: the shortest digits, no trailing `.0`."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def spelled(regulariser: Any) -> str:
    """Return the name of a regulariser, with its fields, which are its parameters, in brackets."""
    parameters = [f.name for f in fields(regulariser) if f.repr and f.name != "name"]
    values = tuple(getattr(regulariser, parameter) for parameter in parameters)
    return str(Name("drift", regulariser.name, values))


class Parametric:
    """A regulariser whose fields are the numbers in its name; it refuses what the name refuses."""

    name: str

    def __post_init__(self) -> None:
        """Convert the numbers to floats; a `UserError` if one is not allowed."""
        for each in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, each.name, float(getattr(self, each.name)))
        parse(spelled(self), "potential" if self.name in BUILT_IN["potential"] else "drift")


def names(kind: Kind) -> list[str]:
    """List the forms of all built-in and registered names."""
    return [*descriptions(kind), *registry.names(kind)]


def descriptions(kind: Kind) -> dict[str, str]:
    """Return the built-in forms, each with its description."""
    return {spelling.form: spelling.about for spelling in BUILT_IN[kind].values()}


def _words(kind: Kind) -> list[str]:
    """List all built-in and registered names, without parameters."""
    return [*BUILT_IN[kind], *registry.names(kind)]


def _choices(kind: Kind) -> str:
    return ", ".join([*(s.help for s in BUILT_IN[kind].values()), *registry.names(kind)])


def parse_potential(text: object, field: str = "potential") -> Name:
    """Read a potential's name; a `UserError` that starts with `field` if it is not one."""
    return parse(text, "potential", field)


def parse_drift(text: object, field: str = "drift") -> Name:
    """Read a drift's name; a `UserError` that starts with `field` if it is not one."""
    return parse(text, "drift", field)


def parse(text: object, kind: Kind, field: str = "") -> Name:
    """Read a regulariser's name; a `UserError` that starts with `field` if it is not one."""
    field = field or kind
    if not isinstance(text, str):
        hint = f"; give it one with mirrorax.register_{kind}" if callable(text) else ""
        raise UserError(f"{field}: {shown(text)} is not a name{hint}; allowed: {_choices(kind)}")
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise UserError(
            f"{field}: {shown(text)}: expected a name, or a name and its parameter in brackets; "
            f"allowed: {_choices(kind)}"
        )
    word, inside = match[1], match[2]
    spelling = BUILT_IN[kind].get(word)
    if spelling is None and registry.registered(kind, word) is None:
        raise _unknown(text, word, kind, field)
    if spelling is None or not spelling.parameters:
        if inside is not None:
            raise UserError(f"{field}: {text!r}: {word} takes no parameter; write {word!r}")
        return Name(kind, word)
    if inside is None and spelling.optional:
        return Name(kind, word)
    texts = _split(inside or "")
    if len(texts) != len(spelling.parameters) or not texts[0].strip():
        needed = f"takes {', '.join(spelling.words)}"
        if not (inside or "").strip():
            needed = f"needs its parameter: {spelling.help}"
        example = f"for example '{word}({spelling.example})'"
        raise UserError(f"{field}: {text!r}: {word} {needed}; {example}")
    arguments = tuple(
        _argument(text, parameter, inner.strip(), spelling, field)
        for parameter, inner in zip(spelling.parameters, texts, strict=True)
    )
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
        name = parse(inside, nested, f"{field}: in {text!r}")
        if sees_advantages(name):
            raise UserError(
                f"{field}: in {text!r}: {str(name)!r} sees advantages, and is no function of two "
                "policies"
            )
        return name
    if parameter == "mu":
        if inside not in REFERENCES:
            raise UserError(
                f"{field}: in {text!r}: unknown reference {inside!r}; allowed: "
                f"{', '.join(REFERENCES)}"
            )
        return inside
    word, sign, least = parameter.split()
    value = float(inside) if _NUMBER.fullmatch(inside) else math.nan
    allowed = value > float(least) if sign == ">" else value >= float(least)
    if not (allowed and math.isfinite(value)):
        raise UserError(
            f"{field}: {text!r}: {word} = {inside} is not allowed: {parameter}, a finite number; "
            f"nearest valid: '{spelling.name}({spelling.example})'"
        )
    return value


def sees_advantages(name: Name) -> bool:
    """Whether a drift is a functional of the advantages of the actions taken."""
    spelling = BUILT_IN[name.kind].get(name.name)
    if spelling is not None:
        return spelling.sees_advantages
    return bool(getattr(registry.registered(name.kind, name.name), "sees_advantages", False))


def _unknown(text: str, word: str, kind: Kind, field: str) -> UserError:
    other: Kind = "drift" if kind == "potential" else "potential"
    allowed = f"allowed: {_choices(kind)}"
    if word in _words(other):
        advice = f"; as a drift write 'bregman({text.strip()})'" if kind == "drift" else ""
        return UserError(f"{field}: {text!r} is a {other}, not a {kind}{advice}; {allowed}")
    guess = _ALSO_CALLED[kind].get(word.lower()) or nearest(word, _words(kind))
    meant = _completed(text, guess, kind) if guess else ""
    if not meant and kind == "drift" and (near := nearest(word, _words("potential"))):
        meant = f"bregman({_completed(text, near, 'potential')})"
    hint = f" (did you mean {meant!r}?)" if meant else ""
    if not meant and (advice := registry.advice(kind)):
        hint = f"; {advice}"
    return UserError(f"{field}: unknown {kind} {text!r}{hint}; {allowed}")


def _completed(text: str, guess: str, kind: Kind) -> str:
    """Return a valid spelling of the guessed word, with the given parameter if it is allowed."""
    bracket = text.find("(")
    for parameter in (text[bracket:] if bracket >= 0 else "", ""):
        try:
            return str(parse(guess + parameter, kind))
        except UserError:
            continue
    return f"{guess}({BUILT_IN[kind][guess].example})"


def build(name: Name) -> Any:
    """Return the object with this name."""
    if name.name not in BUILT_IN[name.kind]:
        return registry.registered(name.kind, name.name)
    module, _, attribute = BUILT_IN[name.kind][name.name].target.partition(":")
    cls = getattr(importlib.import_module(f"mirrorax.regularizers.{module}"), attribute)
    return cls(*(build(x) if isinstance(x, Name) else x for x in name.arguments))


def plugins_of(name: Name) -> set[str]:
    """Return the identities of the plugins that a regulariser comes from."""
    nested = (plugins_of(x) for x in name.arguments if isinstance(x, Name))
    inner: set[str] = set().union(*nested)
    owner = registry.owner(name.kind, name.name)
    return inner if owner is None else inner | {str(owner)}
