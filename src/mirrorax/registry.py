"""The names of environments, potentials, drifts, schedules, networks and optimisers.

Users add names in a plugin (see `mirrorax.plugins`), in a script or in a notebook:

    mirrorax.register_environment("Corridor", Corridor)
    mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
    mirrorax.register_drift("hellinger", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())
    mirrorax.register_schedule("cosine", Cosine())
    mirrorax.register_network("linear", linear)
    mirrorax.register_optimizer("lion", lambda settings: optax.scale_by_lion())

A name selects an object, it never imports code: `choose` reads `Name` or `Name(key=value)`, where
values are numbers, true, false or quoted text, and keys are parameters of the registered class or
function.

Built-in schedules, networks and optimisers stand in a table of the module that implements them;
potentials and drifts in `mirrorax.regularizers.names`, environments in `mirrorax.envs.suite`.
Imports nothing heavy.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mirrorax import plugins
from mirrorax.errors import UserError, in_one_line, nearest, shown, unknown

Kind = Literal["environment", "potential", "drift", "schedule", "network", "optimizer"]

#: kind -> the module with the built-in names of it, and its table of them
_HOME: dict[Kind, tuple[str, str]] = {
    "schedule": ("mirrorax.mdpo.schedules", "SCHEDULES"),
    "network": ("mirrorax.mdpo.networks", "NETWORKS"),
    "optimizer": ("mirrorax.mdpo.networks", "OPTIMIZERS"),
}

#: kinds whose names may have values in brackets: a registered class or function takes them
_WITH_VALUES: tuple[Kind, ...] = ("environment", "schedule")

_CALL = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z0-9_-]*)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)
_LONGEST = 1000  # characters of a name with its values
_ARGUMENT = re.compile(
    r"""\s*(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>'[^'\\]*'|"[^"\\]*"|[+-]?[0-9.][^\s,]*|[A-Za-z]+)"""
    r"""\s*(?P<end>,|$)""",
    re.ASCII,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False}
#: annotations of declared fields that a value is checked against
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
}


@dataclass(frozen=True)
class Registered:
    """The object that a user's name stands for, where it is defined, and by which plugin."""

    value: Any
    origin: str  # "module:name" of the definition
    during: str | None  # the plugin that was being imported


_REGISTERED: dict[tuple[Kind, str], Registered] = {}


class BuiltIn(NamedTuple):
    """What a built-in name of a schedule, a network or an optimiser stands for."""

    make: Callable[..., Any]
    #: what `mirrorax list` says of it
    about: str
    #: of a schedule: runs have a weight, w or v, in place of the temperature
    learned: bool = False


def built_in(kind: Kind) -> Mapping[str, BuiltIn]:
    """Return the built-in names of schedules, networks or optimisers, and what they mean."""
    module, table = _HOME[kind]
    names: Mapping[str, BuiltIn] = getattr(importlib.import_module(module), table)
    return names


def descriptions(kind: Kind) -> Mapping[str, str]:
    """Return the built-in names of a kind, each with its description; not for environments."""
    if kind in _HOME:
        return {name: entry.about for name, entry in built_in(kind).items()}
    described = importlib.import_module("mirrorax.regularizers.names").descriptions
    table: Mapping[str, str] = described(kind)
    return table


def register(
    kind: Kind, name: str, value: Any, taken: Iterable[str] = (), definition: Any = None
) -> None:
    """Give an object of the user a name; the names in `taken` are built in.

    `definition` is what the user wrote, where `value` only wraps it. In one process a name has one
    meaning: another definition under the same name is an error. The same definition again, from a
    module that is reloaded, replaces the first one.
    """
    pattern, rule = r"[A-Za-z][A-Za-z0-9_-]*", "letters, digits, - and _, a letter first"
    if kind in ("potential", "drift"):
        pattern = r"[a-z][a-z0-9_]*"
        rule = "lower-case letters, digits and underscores, a letter first"
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        raise UserError(f"{kind} name: {name!r} is not allowed: {rule}")
    if name in taken or (kind in _HOME and name in built_in(kind)):
        raise UserError(f"{kind} name: {name!r} is taken by mirrorax itself; choose another")
    origin = _origin(value if definition is None else definition)
    before = _REGISTERED.get((kind, name))
    if before is not None and (before.origin, _content(before.value)) != (origin, _content(value)):
        raise UserError(f"{kind} name: {name!r} is taken by {before.origin}; choose another")
    _REGISTERED[kind, name] = Registered(value, origin, plugins.loading())


def register_network(name: str, network: Any) -> None:
    """Name a network: a function of a `NetworkSpec` that returns a `Network`."""
    register("network", name, network)


def register_optimizer(name: str, optimizer: Any) -> None:
    """Name an optimiser: a function of the settings that returns an optax transformation.

    The transformation does not apply the learning rate.
    """
    register("optimizer", name, optimizer)


def register_schedule(name: str, schedule: Any) -> None:
    """Name a schedule of a temperature: a `Schedule`, or a class that makes one.

    The class gets the values in brackets of a name such as `cosine(periods=2)`.
    """
    register("schedule", name, schedule)


def adopt(kind: Kind, label: str, value: Any) -> None:
    """Register an object that was passed in place of a name, under its label."""
    _REGISTERED[kind, label] = Registered(value, _origin(value), plugins.loading())


def _origin(value: Any) -> str:
    """Return the module and the name of a definition; a lambda has no name, so its line, too."""
    definition = value if isinstance(value, type) or callable(value) else type(value)
    name = getattr(definition, "__qualname__", repr(definition))
    place = f"{getattr(definition, '__module__', '')}:{name}"
    code = getattr(value, "__code__", None)
    if code is None or not place.endswith("<lambda>"):
        return place
    return f"{place} (line {code.co_firstlineno})"


def _content(value: Any) -> str:
    """Return the values of an object as text without addresses, to compare two of one class."""
    if isinstance(value, type) or callable(value):
        return ""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def owner(kind: Kind, name: str) -> plugins.Plugin | None:
    """Return the plugin that registered a name, which may have values in brackets.

    It is None for a built-in name and for a name that a script or a notebook registered.
    """
    call = _CALL.fullmatch(name)
    entry = _REGISTERED.get((kind, name)) or (call and _REGISTERED.get((kind, call["name"])))
    if not entry:
        return None
    return plugins.of_module(entry.during or entry.origin.partition(":")[0])


def registered(kind: Kind, name: str) -> Any:
    """Return the object with a registered name, or None; may import the installed plugins."""
    entry = _REGISTERED.get((kind, name))
    if entry is None and plugins.load_installed():
        entry = _REGISTERED.get((kind, name))
    return None if entry is None else entry.value


def names(kind: Kind) -> tuple[str, ...]:
    """Return the registered names, without the labels of objects that were passed."""
    return tuple(sorted(name for each, name in _REGISTERED if each == kind and ":" not in name))


def advice(kind: Kind) -> str:
    """Say what may be missing if a name of this kind is unknown."""
    loaded = [text.partition("==")[0] for text in plugins.loaded()]
    if not loaded:
        return f"{kind}s of your own need their module: --plugin MODULE"
    if not names(kind):
        return f"no {kind} is registered by {', '.join(loaded)}"
    return ""


def path_advice(text: str) -> str:
    """Say what to write instead of an import path; "" for any other text."""
    if re.match(r"\s*[A-Za-z_][\w.]*:[A-Za-z_]", text) is None:
        return ""
    return (
        "; a name does not import code: register it in a plugin, e.g. "
        'mirrorax.register_environment("Maze", Maze), load that with --plugin, and give the name'
    )


@dataclass(frozen=True)
class Choice:
    """A registered name and the values in its brackets."""

    name: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        values = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({values})" if values else self.name


def choose(kind: Kind, text: str, field: str) -> Choice | None:
    """Read `Name` or `Name(key=value)`; None if nothing of this kind has that name."""
    if (kind, text) in _REGISTERED:
        return Choice(text, {})
    call = _CALL.fullmatch(text) if len(text) <= _LONGEST else None
    value = None if call is None else registered(kind, call["name"])
    if call is None or value is None:
        return None
    values = read_values(text, call["inside"], field)
    if values and not (kind in _WITH_VALUES and is_factory(value)):
        raise UserError(f"{field}: {text!r}: {call['name']} takes no values in brackets")
    check_values(f"{field}: {text!r}: {call['name']}", value, values)
    return Choice(call["name"], values)


def read_values(text: str, inside: str | None, field: str) -> dict[str, Any]:
    """Read the `key=value, ...` in the brackets of a name: numbers, true, false, quoted text."""
    values: dict[str, Any] = {}
    at = 0
    while inside is not None and (at < len(inside) or at == 0):
        match = _ARGUMENT.match(inside, at)
        value = None if match is None else _literal(match["value"])
        if match is None or value is None or match["key"] in values or match.end() == at:
            raise UserError(
                f"{field}: {text!r}: the brackets take named plain values (numbers, true, false or "
                "quoted text), each once, e.g. (length=9)"
            )
        values[match["key"]] = value
        at = match.end()
    return values


def _literal(text: str) -> bool | int | float | str | None:
    """Return the value of a literal, or None."""
    if text[0] in "'\"":
        return text[1:-1] if text[1:-1].isprintable() else None
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def check_values(what: str, factory: Any, values: Mapping[str, Any]) -> None:
    """Refuse values that a class or function does not take, or takes only as another type."""
    if not values:
        return
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # something built in, which declares nothing
        parameters = {}.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for key, value in values.items():
        if key not in named:
            guess = nearest(key, named)
            hint = f" (did you mean {guess!r}?)" if guess else ""
            raise UserError(f"{what} has no {key!r}{hint}; allowed: {', '.join(named) or 'none'}")
        declared = named[key].annotation
        wanted = declared if isinstance(declared, str) else getattr(declared, "__name__", "")
        if wanted in _TYPES and type(value) not in _TYPES[wanted]:
            raise UserError(f"{what}: {key} = {value!r}: expected {wanted}")


def check_name(kind: Kind, text: str, field: str) -> str:
    """Return the canonical name of a schedule, network or optimiser; a `UserError` if unknown."""
    allowed = tuple(built_in(kind))
    if text in allowed:
        return text
    choice = choose(kind, text, field)
    if choice is not None:
        return str(choice)
    if hint := path_advice(text):
        raise UserError(f"{field}: unknown value {shown(text)}{hint}")
    raise unknown(field, text, (*allowed, *names(kind)))


def select(kind: Kind, text: str, field: str) -> Any:
    """Return the object with a registered name; a class or function is called to make it."""
    choice = choose(kind, text, field)
    if choice is None:
        raise UserError(f"{field}: nothing is registered as {text!r}{path_advice(text)}")
    value = registered(kind, choice.name)
    if not is_factory(value):
        return value
    try:
        return value(**choice.arguments)
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"{field}: cannot make {text!r}: {in_one_line(error)}") from None


def is_factory(value: Any) -> bool:
    """Whether a registered value is a class or function that makes the object."""
    is_object = hasattr(value, "step") or hasattr(value, "temperature")
    return isinstance(value, type) or (callable(value) and not is_object)


class LazyModule:
    """A module that is imported when its first attribute is read.

    Built-in networks, optimisers and schedules are named and implemented in the same module. With
    this, `settings` can read the names there without importing jax, which takes seconds.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def optional_package(name: str, install: str = "") -> Any:
    """Import a package that mirrorax does not require; a `UserError` says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"{name}: it is not installed; pip install {install or name}") from None
