"""Names that users add: environments, regularisers, schedules, networks, optimisers of their own.

A *plugin* is a Python module that registers names when it is imported:

    mirrorax.register_environment("Corridor", Corridor)
    mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
    mirrorax.register_drift("hellinger", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())
    mirrorax.register_schedule("cosine", Cosine())

Code is loaded only by what the user types or installs: `--plugin MODULE` on the command line,
`mirrorax.load_plugin("MODULE")` in Python, or an installed package with an entry point of the group
`mirrorax.plugins`. Installed ones are imported when a name is asked for that nothing else explains.

A file never loads code. Every reader of files follows two functions of this module:

- `expect`: the plugins that a file declares (`plugins = ["MODULE"]`) must be loaded already;
- `choose`: a name in it selects among what is registered, as `Name` or `Name(key=value)`, where
  values are numbers, true, false or quoted text, and keys are declared by what is registered.

The identity of a plugin, `module==version`, is part of the identity of every run that uses one of
its names. The version is the module's `__version__`, else that of the package it is installed with,
else a hash of its source. Imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from mirrorax import arguments
from mirrorax.errors import UserError, in_one_line, nearest, shown

GROUP = "mirrorax.plugins"

Kind = Literal["environment", "potential", "drift", "schedule", "network", "optimizer"]

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[!-~]{1,64}")  # printable, no spaces

_LONGEST = 1000  # characters of a name with its values
_CALL = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z0-9_-]*)\s*(?:\((?P<inside>.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class Plugin:
    """A module that was declared and imported."""

    module: str
    version: str

    def __str__(self) -> str:
        return f"{self.module}=={self.version}"


@dataclass(frozen=True)
class _Registered:
    """A name of a user's: what it means, where that was defined, and who registered it."""

    made: Any
    origin: str  # the module and the name of the definition
    during: str | None  # the plugin that was being imported


_LOADED: dict[str, Plugin] = {}
_LOADING: list[str] = []
_NAMES: dict[tuple[Kind, str], _Registered] = {}
_SEARCHED: list[bool] = []  # not empty once the installed plugins were imported


def load(text: str) -> Plugin:
    """Import the plugin `module` or `module==version`; importing it again does nothing.

    With a version, another one is refused. Only for what a user types or a driver passes to its
    workers: a text from a file goes to `expect`.
    """
    module, wanted = _parsed(text)
    plugin = _LOADED.get(module)
    if plugin is None:
        with _current_folder():
            plugin = _import(module)
    _check_version(plugin, wanted)
    return plugin


def _parsed(text: Any) -> tuple[str, str]:
    """Return the module and the version, or "", of `module==version`."""
    if not isinstance(text, str):
        raise UserError(f"plugin: {shown(text)} is not the name of a module")
    module, _, wanted = text.strip().partition("==")
    if module.endswith(".py") or "/" in module or "\\" in module:
        raise UserError(_about_path(module))
    if not _MODULE.fullmatch(module):
        raise UserError(
            f"plugin: {shown(text)} is not the name of a module, e.g. my_package.my_module"
        )
    return module, wanted


def _check_version(plugin: Plugin, wanted: str) -> None:
    if wanted and wanted != plugin.version:
        raise UserError(
            f"plugin: version {wanted} of {plugin.module} is wanted, "
            f"version {plugin.version} is here"
        )


def _about_path(text: str) -> str:
    """Say which module somebody means who gave the path of a file."""
    path = Path(text.replace("\\", "/"))
    where = "" if path.parent in (Path(), Path.cwd()) else f" from the folder {path.parent}"
    return f"plugin: {text!r} is a path, and a module is wanted: --plugin {path.stem}{where}"


def load_all(texts: Iterable[str]) -> None:
    """Import several plugins."""
    for text in texts:
        load(text)


def loaded() -> list[str]:
    """Return the identities of the plugins that are loaded, for workers to load the same."""
    return sorted(map(str, _LOADED.values()))


def load_installed() -> bool:
    """Import the plugins of installed packages, once; return whether there were any new ones."""
    if _SEARCHED:
        return False
    _SEARCHED.append(True)
    before = len(_LOADED)
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.module not in _LOADED:
            _import(entry.module)
    return len(_LOADED) > before


def expect(texts: Any, where: str) -> None:
    """Refuse a file, named by `where`, that needs plugins which are not loaded.

    `texts` is what the file declares: `module` or `module==version`. Nothing is imported but the
    plugins of installed packages.
    """
    if not isinstance(texts, list | tuple):
        raise UserError(
            f'{where}: plugins: {shown(texts)}: expected a list of modules, e.g. ["my_module"]'
        )
    try:
        wanted = dict(map(_parsed, texts))
        if any(module not in _LOADED for module in wanted):
            load_installed()
        missing = [module for module in wanted if module not in _LOADED]
        if missing:
            flags = " ".join(f"--plugin {module}" for module in missing)
            one = len(missing) == 1
            raise UserError(
                f"it needs the plugin{'' if one else 's'} {', '.join(missing)}, which "
                f"{'is' if one else 'are'} not loaded; add {flags} "
                "(in Python: mirrorax.load_plugin)"
            )
        for module, version in wanted.items():
            _check_version(_LOADED[module], version)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


@contextmanager
def _current_folder() -> Iterator[None]:
    """Look for modules in the current folder too, after all others, and only in this block.

    Left on the path, a folder with a module that jax or Gymnasium looks for would run it.
    """
    folder = os.getcwd()
    new = folder not in sys.path
    if new:
        sys.path.append(folder)
    try:
        yield
    finally:
        if new and folder in sys.path:
            sys.path.remove(folder)


def _import(module: str) -> Plugin:
    _LOADING.append(module)
    try:
        found = importlib.import_module(module)
    except UserError as error:
        raise UserError(f"plugin: {module}: {error}") from None
    except (Exception, SystemExit) as error:  # a module of the user's may fail in any way
        if isinstance(error, ModuleNotFoundError) and error.name in _parts(module):
            raise UserError(_about_missing(module)) from None
        raise UserError(f"plugin: cannot import {module!r}: {in_one_line(error)}") from None
    finally:
        _LOADING.pop()
    plugin = Plugin(module, _installed_version(module) or _version(found))
    if not _VERSION.fullmatch(plugin.version):
        raise UserError(
            f"plugin: {module}: its version {plugin.version!r} is not a short word without spaces"
        )
    _LOADED[module] = plugin
    return plugin


def _installed_version(module: str) -> str | None:
    """Return the version of the package whose entry point a module is."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.module == module and entry.dist is not None:
            return entry.dist.version
    return None


def _parts(module: str) -> list[str]:
    """Return the names that importing a module imports: a, a.b, a.b.c."""
    words = module.split(".")
    return [".".join(words[: i + 1]) for i in range(len(words))]


def _about_missing(module: str) -> str:
    """Say that there is no such module, and where one is looked for."""
    here = [path.stem for path in Path.cwd().glob("*.py")]
    guess = nearest(module, here)
    hint = f" (did you mean {guess!r}?)" if guess else ""
    return (
        f"plugin: there is no module {module!r}{hint}; it is looked for among installed packages "
        "and in the current folder"
    )


def _version(module: ModuleType) -> str:
    """Return a module's own version, its distribution's, or a hash of its source."""
    top = module.__name__.partition(".")[0]
    for each in (module, sys.modules.get(top)):
        stated = getattr(each, "__version__", None)
        if isinstance(stated, str) and stated:
            return stated
    owners = importlib.metadata.packages_distributions().get(top, ())
    if owners:
        return importlib.metadata.version(owners[0])
    return f"sha256-{_source_hash(module)}"


def _source_hash(module: ModuleType) -> str:
    """Hash the file of a module, or all Python files of a package."""
    if not module.__file__:
        raise UserError(f"plugin: {module.__name__} has no __version__ and no file to tell it by")
    file = Path(module.__file__)
    files = sorted(file.parent.rglob("*.py")) if hasattr(module, "__path__") else [file]
    digest = hashlib.sha256()
    for each in files:
        digest.update(str(each.relative_to(file.parent)).encode() + b"\0")
        digest.update(hashlib.sha256(each.read_bytes()).digest())
    return digest.hexdigest()[:16]


def of_module(module: str) -> Plugin | None:
    """Return the plugin that a module is, or is a part of."""
    while module:
        if module in _LOADED:
            return _LOADED[module]
        module = module.rpartition(".")[0]
    return None


def note(kind: Kind, name: str, made: Any, origin: str) -> None:
    """Record what a user's name means and who registered it."""
    _NAMES[kind, name] = _Registered(made, origin, _LOADING[-1] if _LOADING else None)


def owner(kind: Kind, name: str) -> Plugin | None:
    """Return the plugin that a name comes from; None for mirrorax's own, or a notebook's.

    The name may have values in brackets.
    """
    match = _CALL.fullmatch(name)
    found = _NAMES.get((kind, name)) or (match and _NAMES.get((kind, match["name"])))
    if not found:
        return None
    if found.during is not None:
        return _LOADED.get(found.during)
    return of_module(found.origin.partition(":")[0])


def registered(kind: Kind, name: str) -> Any:
    """Return the object of a registered name, or None; installed plugins are imported to see."""
    found = _NAMES.get((kind, name))
    if found is None and load_installed():
        found = _NAMES.get((kind, name))
    return None if found is None else found.made


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names registered now, without those of objects that were passed."""
    return tuple(sorted(name for each, name in _NAMES if each == kind and ":" not in name))


def advice(kind: Kind) -> str:
    """Say what may be missing where a name of this kind is not known."""
    if not _LOADED:
        return f"{kind}s of your own need their module: --plugin MODULE"
    if not names(kind):
        return f"no {kind} is registered by {', '.join(sorted(_LOADED))}"
    return ""


def register(kind: Kind, name: str, made: Any, taken: Iterable[str]) -> None:
    """Give an environment or a schedule of the user's its name.

    A name means one thing in one process: another definition under it is an error; the same
    definition again (a module that is reloaded) replaces it.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(
            f"{kind} name: {name!r} is not allowed: letters, digits, - and _, a letter first"
        )
    origin = _origin(made)
    if name in taken:
        raise UserError(f"{kind} name: {name!r} is taken by mirrorax itself; choose another")
    before = _NAMES.get((kind, name))
    if before is not None and (before.origin != origin or _shown(before.made) != _shown(made)):
        raise UserError(f"{kind} name: {name!r} is taken by {before.origin}; choose another")
    note(kind, name, made, origin)


def _origin(made: Any) -> str:
    """Say where a definition stands."""
    cls = made if isinstance(made, type) or callable(made) else type(made)
    return located(
        f"{getattr(cls, '__module__', '')}:{getattr(cls, '__qualname__', repr(cls))}", made
    )


def located(place: str, made: Any) -> str:
    """Add the line to the place of a lambda, which has no name."""
    code = getattr(made, "__code__", None)
    if code is None or not place.endswith("<lambda>"):
        return place
    return f"{place} (line {code.co_firstlineno})"


def _shown(made: Any) -> str:
    """Return what tells two objects of one class apart: their values, not their addresses."""
    if isinstance(made, type) or callable(made):
        return ""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(made))


@dataclass(frozen=True)
class Choice:
    """A registered name, and the values in its brackets."""

    name: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{self.name}({given})" if given else self.name


def choose(kind: Kind, text: str, field: str) -> Choice | None:
    """Read `Name` or `Name(key=value)`; None where nothing of the kind has this name.

    A text selects among what is registered. It never names a module or a function to call.
    """
    if (kind, text) in _NAMES:
        return Choice(text, {})
    match = _CALL.fullmatch(text) if len(text) <= _LONGEST else None
    found = None if match is None else registered(kind, match["name"])
    if match is None or found is None:
        return None
    values = arguments.read(text, match["inside"], field)
    if values and not makes_one(found):
        raise UserError(f"{field}: {text!r}: {match['name']} takes no values in brackets")
    arguments.check(f"{field}: {text!r}: {match['name']}", found, values)
    return Choice(match["name"], values)


def select(kind: Kind, text: str, field: str) -> Any:
    """Make what a name stands for."""
    choice = choose(kind, text, field)
    if choice is None:
        raise UserError(f"{field}: nothing is registered as {text!r}{path_advice(text)}")
    found = registered(kind, choice.name)
    if not makes_one(found):
        return found
    try:
        return found(**choice.arguments)
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"{field}: cannot make {text!r}: {in_one_line(error)}") from None


def makes_one(found: Any) -> bool:
    """Whether what was registered is a class or function that makes an object of its kind."""
    is_object = hasattr(found, "step") or hasattr(found, "temperature")
    return isinstance(found, type) or (callable(found) and not is_object)


def path_advice(text: str) -> str:
    """Say what to do in place of an import path; "" for any other text."""
    if re.match(r"\s*[A-Za-z_][\w.]*:[A-Za-z_]", text) is None:
        return ""
    return (
        "; a name does not import code: register it in a plugin, e.g. "
        'mirrorax.register_environment("Maze", Maze), load that with --plugin, and give the name'
    )


#: the name under which `load` is offered to users
load_plugin = load
