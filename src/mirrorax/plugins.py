"""Names that users add: environments, potentials, drifts and schedules, from modules of their own.

A *plugin* is a Python module that registers names when it is imported:

    mirrorax.register_environment("Corridor", Corridor)
    mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
    mirrorax.register_drift("hellinger", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())
    mirrorax.register_schedule("cosine", Cosine())

It is imported only where somebody declares it: `--plugin MODULE` on the command line, `plugins =
["MODULE"]` in a study, `mirrorax.load_plugin("MODULE")` in Python, or an installed package with an
entry point of the group `mirrorax.plugins`. Installed ones are imported when a name is asked for
that nothing else explains.

The identity of a plugin, `module==version`, is part of the identity of every run that uses one of
its names. The version is the module's `__version__`, else that of the package it is installed with,
else a hash of its source. Imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from mirrorax.errors import UserError, in_one_line, nearest

GROUP = "mirrorax.plugins"

Kind = Literal["environment", "potential", "drift", "schedule", "network", "optimizer"]

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VERSION = re.compile(r"[!-~]{1,64}")  # printable, no spaces


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

    With a version, another one is refused.
    """
    if not isinstance(text, str):
        raise UserError(f"plugin: {text!r} is not the name of a module")
    module, _, wanted = text.strip().partition("==")
    if module.endswith(".py") or "/" in module or "\\" in module:
        raise UserError(_about_path(module))
    if not _MODULE.fullmatch(module):
        raise UserError(f"plugin: {text!r} is not the name of a module, e.g. my_package.my_module")
    plugin = _LOADED.get(module) or _import(module, None)
    if wanted and wanted != plugin.version:
        raise UserError(
            f"plugin: version {wanted} of {module} is wanted, version {plugin.version} is here"
        )
    return plugin


def _about_path(text: str) -> str:
    """Say which module somebody means who gave the path of a file."""
    path = Path(text.replace("\\", "/"))
    where = "" if path.parent in (Path(), Path.cwd()) else f" from the folder {path.parent}"
    return f"plugin: {text!r} is a path, and a module is wanted: --plugin {path.stem}{where}"


def load_all(texts: Iterable[str]) -> None:
    """Import several plugins."""
    for text in texts:
        load(text)


def load_installed() -> bool:
    """Import the plugins of installed packages, once; return whether there were any new ones."""
    if _SEARCHED:
        return False
    _SEARCHED.append(True)
    before = len(_LOADED)
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.module not in _LOADED:
            _import(entry.module, entry.dist.version if entry.dist is not None else None)
    return len(_LOADED) > before


def expect(texts: Iterable[str], where: str) -> None:
    """Refuse to go on with what was made with plugins that nobody has declared now."""
    missing = [text for text in texts if str(text).partition("==")[0] not in _LOADED]
    if missing:
        load_installed()
    for text in texts:
        module = str(text).partition("==")[0]
        if module not in _LOADED:
            raise UserError(f"{where}: it needs the plugin {text}; declare it: --plugin {module}")
        load(text)


def _import(module: str, version: str | None) -> Plugin:
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
    plugin = Plugin(module, version or _version(found))
    if not _VERSION.fullmatch(plugin.version):
        raise UserError(
            f"plugin: {module}: its version {plugin.version!r} is not a short word without spaces"
        )
    _LOADED[module] = plugin
    return plugin


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
    """Return the plugin that a name comes from; None for mirrorax's own, or a notebook's."""
    found = _NAMES.get((kind, name))
    if found is None:
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
    """Return the names registered now."""
    return tuple(sorted(name for each, name in _NAMES if each == kind))


def advice(kind: Kind) -> str:
    """Say what may be missing where a name of this kind is not known."""
    if not _LOADED:
        return f'{kind}s of your own need their module: --plugin MODULE, or plugins = ["MODULE"]'
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


#: the name under which `load` is offered to users
load_plugin = load
