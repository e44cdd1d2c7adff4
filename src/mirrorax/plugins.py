"""Plugins: Python modules of the user that register names (see `mirrorax.registry`).

Only the user loads a plugin: by `--plugin MODULE` on the command line, by
`mirrorax.load_plugin("MODULE")` in Python, or by installing a package with an entry point of the
group `mirrorax.plugins`. Installed plugins are imported when a name is otherwise unknown.

A file never loads code. The plugins that a file declares (`plugins = ["MODULE"]`) must be loaded
already: every reader of files calls `expect`.

The identity of a plugin, `module==version`, is part of the identity of every run that uses one of
its names. The version is that of the package of an entry point, else `__version__` of the module,
else the version of the package it belongs to, else a hash of its source. Imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from mirrorax.errors import UserError, in_one_line, nearest, shown

GROUP = "mirrorax.plugins"

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_VERSION = re.compile(r"[!-~]{1,64}")  # printable, no spaces


@dataclass(frozen=True)
class Plugin:
    """A module that was declared and imported."""

    module: str
    version: str

    def __str__(self) -> str:
        return f"{self.module}=={self.version}"


_LOADED: dict[str, Plugin] = {}
_LOADING: list[str] = []  # the modules that are being imported, the innermost last
_SEARCHED: list[bool] = []  # not empty once the installed plugins were imported


def load_plugin(text: str) -> Plugin:
    """Import a plugin; importing it again does nothing.

    Use it for text that a user typed or that a driver sent to its workers; `expect` is for text
    from a file.

    Args:
        text: `module` or `module==version`; it is a `UserError` if the version differs.

    Returns:
        The module and its version, which are part of the identity of runs that use its names.
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
        path = Path(module.replace("\\", "/"))
        where = "" if path.parent in (Path(), Path.cwd()) else f" from the folder {path.parent}"
        meant = f"give the name of a module: --plugin {path.stem}{where}"
        raise UserError(f"plugin: {module!r} is a path; {meant}")
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


def load_all(texts: Iterable[str]) -> None:
    """Import several plugins."""
    for text in texts:
        load_plugin(text)


def loaded() -> list[str]:
    """Return the identities of the loaded plugins, so that workers can load the same."""
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

    `texts` are the plugins that the file declares: `module` or `module==version`. Only the plugins
    of installed packages are imported.
    """
    if not isinstance(texts, list | tuple):
        raise UserError(
            f'{where}: plugins: {shown(texts)}: expected a list of modules, e.g. ["my_module"]'
        )
    try:
        wanted = dict(map(_parsed, texts))
        if wanted.keys() - _LOADED.keys():
            load_installed()
        missing = [module for module in wanted if module not in _LOADED]
        if missing:
            flags = " ".join(f"--plugin {module}" for module in missing)
            raise UserError(
                f"its plugins are not loaded: {', '.join(missing)}; add {flags} "
                "(in Python: mirrorax.load_plugin)"
            )
        for module, version in wanted.items():
            _check_version(_LOADED[module], version)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


@contextmanager
def _current_folder() -> Iterator[None]:
    """Look for modules in the current folder, too, after all others, and only in this block.

    If the folder stayed on the path, jax or Gymnasium might later import a module from it.
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
        imported = importlib.import_module(module)
    except UserError as error:
        raise UserError(f"plugin: {module}: {error}") from None
    except (Exception, SystemExit) as error:  # a module of the user's may fail in any way
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            guess = nearest(module, [path.stem for path in Path.cwd().glob("*.py")])
            hint = f" (did you mean {guess!r}?)" if guess else ""
            places = "it is looked for among installed packages and in the current folder"
            raise UserError(f"plugin: there is no module {module!r}{hint}; {places}") from None
        raise UserError(f"plugin: cannot import {module!r}: {in_one_line(error)}") from None
    finally:
        _LOADING.pop()
    plugin = Plugin(module, _version(imported))
    if not _VERSION.fullmatch(plugin.version):
        raise UserError(
            f"plugin: {module}: its version {plugin.version!r} is not a short word without spaces"
        )
    _LOADED[module] = plugin
    return plugin


def _version(module: ModuleType) -> str:
    """Return the version of the entry point, of the module or of its package, or a hash."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.module == module.__name__ and entry.dist is not None:
            return entry.dist.version
    top = module.__name__.partition(".")[0]
    for each in (module, sys.modules.get(top)):
        stated = getattr(each, "__version__", None)
        if isinstance(stated, str) and stated:
            return stated
    owners = importlib.metadata.packages_distributions().get(top)
    return importlib.metadata.version(owners[0]) if owners else f"sha256-{_source_hash(module)}"


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


def loading() -> str | None:
    """Return the plugin that is being imported, if one is."""
    return _LOADING[-1] if _LOADING else None


def of_module(module: str) -> Plugin | None:
    """Return the plugin that a module is, or belongs to."""
    while module:
        if module in _LOADED:
            return _LOADED[module]
        module = module.rpartition(".")[0]
    return None
