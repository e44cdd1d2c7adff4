"""`mirrorax doctor`: what is installed, what computes, whether it learns, how fast it is.

A finding is what a check of `mirrorax.selftest` returns: a status ("ok", "remark" or "wrong"), a
text for a person, and its numbers.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

from mirrorax._version import __version__
from mirrorax.errors import UserError
from mirrorax.formatting import columns, counted
from mirrorax.selftest import Finding, finding

EXAMPLES = """examples:
  mirrorax doctor                 everything, in about ten seconds
  mirrorax doctor --no-self-test  versions, cores and memory only
  mirrorax doctor --json
  mirrorax doctor --no-self-test --plugin mine   also check the names that mine.py registers

The self-test compares a mirror step with its closed form, trains on a small board and compares the
policy with the exact solution, and compares the speed of one core with the expected one.

exit codes: 0 nothing is wrong (there may be remarks), 1 something is wrong.
"""

FLAGS = """
--no-self-test      look at the installation, train nothing
@plugin
@json
"""

#: Longer than this, and something hangs.
TIMEOUT = 300.0
#: Extras that only people who change mirrorax need.
_FOR_DEVELOPERS = ("dev", "docs")


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def packages() -> Finding:
    """Compare what is installed with what this package asks for."""
    from packaging.requirements import Requirement

    try:
        about = metadata.metadata("mirrorax")
    except metadata.PackageNotFoundError:
        text = "mirrorax is not installed as a package; pip install it (or 'make setup')"
        return finding("wrong", text, versions={}, extras={})
    wanted = [Requirement(text) for text in about.get_all("Requires-Dist") or ()]

    def needed(extra: str) -> list[Requirement]:
        return [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": extra})]

    required, wrong = needed(""), []
    versions = {each.name: _installed(each.name) for each in required}
    for each in required:
        version = versions[each.name]
        if version is None:
            wrong.append(f"{each.name} is missing")
        elif not each.specifier.contains(version, prereleases=True):
            wrong.append(f"{each.name} {version}, but {each.specifier} is needed")
    extras = {
        extra: all(_installed(r.name) is not None for r in needed(extra))
        for extra in about.get_all("Provides-Extra") or ()
        if len(needed(extra)) > len(required) and extra not in _FOR_DEVELOPERS
    }
    main = ", ".join(f"{n} {versions[n]}" for n in ("jax", "gymnax", "numpy") if n in versions)
    text = f"all {len(versions)} required ones, with {main}"
    if wrong:
        text = "; ".join(wrong) + "; install mirrorax again"
    return finding("wrong" if wrong else "ok", text, versions=versions, extras=extras)


def own_names() -> dict[str, Finding]:
    """Check every environment, potential and drift that a plugin of the flag has registered."""
    from mirrorax import check_drift, check_potential, registry

    checks: dict[registry.Kind, Callable[[str], Any]] = {
        "environment": _check_environment,
        "potential": check_potential,
        "drift": check_drift,
    }
    findings = {}
    for kind, check in checks.items():
        for name in registry.names(kind):
            if registry.owner(kind, name) is None:
                continue
            try:
                result = check(name)
                status, text = "ok" if result else "wrong", str(result).removeprefix(f"{name}: ")
            except NotImplementedError as reason:
                status, text = "remark", f"not checked: {reason}"
            except UserError as error:
                status, text = "wrong", str(error).removeprefix(f"{kind}: ")
            findings[f"{kind} {name}"] = finding(status, text)
    nothing = finding("remark", "it registers no environment, potential or drift")
    return findings or {"plugin": nothing}


def _check_environment(name: str) -> Any:
    """Play an environment; `NotImplementedError` says why one that may be sound is not played."""
    from mirrorax import check_environment, registry
    from mirrorax.envs.adapter import make
    from mirrorax.envs.host import Gymnasium

    maker = registry.registered("environment", name)
    if registry.is_factory(maker):
        try:
            inspect.signature(maker).bind()
        except TypeError:
            raise NotImplementedError(f"it needs values in brackets, {name}(...)") from None
    if isinstance(make(name), Gymnasium):
        check = "gymnasium.utils.env_checker.check_env"
        raise NotImplementedError(f"use Gymnasium's check, {check}")
    return check_environment(name)


def machine() -> dict[str, Finding]:
    """Look at cores and memory."""
    try:
        from mirrorax.mdpo.machine import available_bytes, cores
        from mirrorax.runs.settings import make_settings
        from mirrorax.sweep.measure import ask_sizes
    except ImportError as error:
        return {"machine": finding("wrong", f"cannot be examined: {error}")}
    usable, free = len(cores()), available_bytes()
    settings = make_settings(environment="CartPole")
    sizes = ask_sizes([settings]).get(settings)
    lanes = 0 if sizes is None else sizes.lanes_that_fit(usable)
    wide = f"{counted(usable, 'worker')} with up to {min(lanes, 4096):,} lanes of CartPole fit"
    memory = f"{free / 2**30:.1f} GiB free; {wide}"
    enough = "ok" if lanes >= 8 else "remark"
    return {
        "cores": finding("ok", f"{usable} usable of {os.cpu_count()}, {platform.machine()}"),
        "memory": finding(enough, memory, cores=usable, free_bytes=free, lanes_that_fit=lanes),
    }


def self_test(timeout: float = TIMEOUT) -> dict[str, Finding]:
    """Run `mirrorax.selftest` in another process; return the finding of each check."""
    from mirrorax.mdpo import machine

    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mirrorax.selftest"],
            capture_output=True,
            text=True,
            env=machine.environment(machine.ONE_THREAD),
            timeout=timeout,
            check=False,
        )
        output, code, last = done.stdout, done.returncode, done.stderr.strip().splitlines()[-1:]
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        code, last = -1, [f"it was still running after {timeout:g} seconds"]
    findings = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            findings[found.pop("check")] = found
    if code != 0:
        reason = " ".join(last) or f"it ended with code {code}"
        findings["self-test"] = finding("wrong", f"it ended early: {reason}")
    return findings


def run(args: argparse.Namespace) -> int:
    """Look at the installation, run the self-test, print the findings."""
    python = platform.python_version()
    system = f"Python {python}, {platform.system()} {platform.release()}"
    installed = packages()
    findings = {"mirrorax": finding("ok", f"{__version__}, {system}"), "packages": installed}
    for extra, present in installed["extras"].items():
        text = "present" if present else f"absent (pip install 'mirrorax[{extra}]')"
        findings[f"extra {extra}"] = finding("ok", text)
    findings |= machine()
    if args.plugin:
        findings |= own_names()
    results: dict[str, Finding] = {}
    if not args.no_self_test:
        if not args.json and sys.stderr.isatty():
            print("self-test, about ten seconds ...", file=sys.stderr)
        results = self_test()
    rows = [(each["status"], name, each["text"]) for name, each in {**findings, **results}.items()]
    wrong = [name for status, name, _ in rows if status == "wrong"]
    if args.json:
        facts = {**installed, **findings.get("memory", {})}
        answer = {
            "ok": not wrong,
            "mirrorax": __version__,
            "python": python,
            **{name: value for name, value in facts.items() if name not in ("status", "text")},
            "self_test": results,
            "findings": [{"subject": n, "status": s, "text": text} for s, n, text in rows],
        }
        print(json.dumps(answer))
    else:
        print(columns([(status.ljust(6), *rest) for status, *rest in rows], left=3))
        print(f"\nwrong: {', '.join(wrong)}" if wrong else "\nnothing is wrong")
    return 1 if wrong else 0
