"""`mirrorax doctor`: what is installed, what computes, whether it learns, how fast it is."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mirrorax.cli import plugin
from mirrorax.errors import UserError
from mirrorax.formatting import counted

_EXAMPLES = """examples:
  mirrorax doctor                 everything, in about ten seconds
  mirrorax doctor --no-self-test  only what can be seen without computing
  mirrorax doctor --json
  mirrorax doctor --no-self-test --plugin mine   the names that mine.py registers, too

The self-test compares a mirror step with its closed form, trains on a small board and lets the
exact solver judge the policy, and measures the speed of one core beside the shipped table.

exit codes: 0 nothing is wrong (there may be remarks), 1 something is.
"""

#: Slower than the shipped table by more than this is worth a remark.
SLOW = 2.0
#: Longer than this, and something hangs.
TIMEOUT = 300.0
#: Extras that only people who change mirrorax need.
_FOR_DEVELOPERS = ("dev", "docs")

#: As in the workers of a sweep, which the shipped table speaks of.
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

Status = Literal["ok", "remark", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's."""

    subject: str
    status: Status
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--no-self-test", action="store_true", help="compute nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    plugin.add_flag(parser)


def _installed(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def packages() -> tuple[list[Finding], dict[str, str | None], dict[str, bool]]:
    """Compare what is installed with what this package asks for; return versions and extras."""
    from importlib.metadata import PackageNotFoundError, metadata

    from packaging.requirements import Requirement

    try:
        about = metadata("mirrorax")
    except PackageNotFoundError:
        text = "mirrorax is not installed as a package; pip install it (or 'make setup')"
        return [Finding("packages", "wrong", text)], {}, {}
    wanted = [Requirement(text) for text in about.get_all("Requires-Dist") or ()]
    versions: dict[str, str | None] = {}
    wrong = []
    for one in wanted:
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        found = versions[one.name] = _installed(one.name)
        if found is None:
            wrong.append(f"{one.name} is missing")
        elif not one.specifier.contains(found, prereleases=True):
            wrong.append(f"{one.name} {found}, but {one.specifier} is needed")
    extras = {}
    for extra in about.get_all("Provides-Extra") or ():
        if extra in _FOR_DEVELOPERS:
            continue
        own = [
            one
            for one in wanted
            if one.marker is not None
            and one.marker.evaluate({"extra": extra})
            and not one.marker.evaluate({"extra": ""})
        ]
        if own:
            extras[extra] = all(_installed(one.name) is not None for one in own)
    if wrong:
        told = Finding("packages", "wrong", "; ".join(wrong) + "; install mirrorax again")
    else:
        named = ", ".join(f"{n} {versions[n]}" for n in ("jax", "gymnax", "numpy") if n in versions)
        told = Finding("packages", "ok", f"all {len(versions)} that are needed, among them {named}")
    return [told], versions, extras


def own_names() -> list[Finding]:
    """Check every environment, potential and drift that a declared plugin has registered."""
    from mirrorax import check_drift, check_environment, check_potential, registry

    checks: dict[registry.Kind, Callable[[str], Any]] = {
        "environment": check_environment,
        "potential": check_potential,
        "drift": check_drift,
    }
    told = []
    for kind, check in checks.items():
        for name in registry.names(kind):
            if registry.owner(kind, name) is None:
                continue
            if kind == "environment" and (why := _not_played(name)):
                told.append(Finding(f"{kind} {name}", "remark", why))
                continue
            try:
                found = check(name)
                good, text = bool(found), str(found).removeprefix(f"{name}: ")
            except UserError as error:
                good, text = False, str(error).removeprefix(f"{kind}: ")
            told.append(Finding(f"{kind} {name}", "ok" if good else "wrong", text))
    if not told:
        text = "it registers no environment, potential or drift"
        told.append(Finding("plugin", "remark", text))
    return told


def _not_played(name: str) -> str:
    """Say why a registered environment cannot be played here, if so, though nothing is wrong."""
    import inspect

    from mirrorax import registry

    found = registry.registered("environment", name)
    if registry.is_factory(found):
        try:
            inspect.signature(found).bind()
        except TypeError:
            return f"not played, for it needs values in brackets: {name}(...)"
        except ValueError:
            return ""  # a callable that does not tell
    try:
        from mirrorax.envs.adapter import make
        from mirrorax.envs.host import Gymnasium

        if isinstance(make(name), Gymnasium):
            return "not played: Gymnasium's own check is gymnasium.utils.env_checker.check_env"
    except UserError:
        pass  # the check says it
    return ""


def machine() -> tuple[list[Finding], dict[str, Any]]:
    """Look at cores and memory."""
    try:
        from mirrorax.runs.settings import make_settings
        from mirrorax.sweep import rates
        from mirrorax.sweep.engines.local import cores
    except ImportError as error:
        return [Finding("machine", "wrong", f"cannot look: {error}")], {}
    usable, free = len(cores()), rates.available_bytes()
    settings = make_settings(environment="CartPole")
    lanes = rates.lanes_that_fit(settings, usable)
    wide = f"{counted(usable, 'worker')} with up to {min(lanes, 4096):,} lanes of CartPole fit"
    enough = lanes >= 8
    facts = {"cores": usable, "free_bytes": free, "lanes_that_fit": lanes}
    told = [
        Finding("cores", "ok", f"{usable} usable of {os.cpu_count()}, {platform.machine()}"),
        Finding("memory", "ok" if enough else "remark", f"{free / 2**30:.1f} GiB free; {wide}"),
    ]
    return told, facts


def self_test(timeout: float = TIMEOUT) -> dict[str, dict[str, Any]]:
    """Run `mirrorax.selftest` in a process of its own; return what each check found."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {_ONE_THREAD}".strip()
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mirrorax.selftest"],
            capture_output=True,
            text=True,
            env={**os.environ, **threads, "XLA_FLAGS": flags},
            timeout=timeout,
            check=False,
        )
        output, code, last = done.stdout, done.returncode, done.stderr.strip().splitlines()[-1:]
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        code, last = -1, [f"it was still running after {timeout:g} seconds"]
    found = {}
    for line in output.splitlines():
        try:
            one = json.loads(line)
        except ValueError:
            continue
        found[one.pop("check")] = one
    if code != 0:
        found["end"] = {"code": code, "reason": " ".join(last) or f"it ended with code {code}"}
    return found


def judge(found: dict[str, dict[str, Any]]) -> list[Finding]:
    """Turn the findings of the self-test into lines for a person."""
    told = []
    for name, one in found.items():
        if "error_raised" in one:
            told.append(Finding(name.replace("_", " "), "wrong", one["error_raised"]))
        elif name == "end":
            told.append(Finding("self-test", "wrong", f"it did not end well: {one['reason']}"))
        else:
            told.append(_WORDS[name](one))
    return told


def _devices(one: dict[str, Any]) -> Finding:
    text = f"{one['count']} x {one['platform']} ({one['kind']}), jax {one['jax']}"
    return Finding("device", "ok", text)


def _cache(one: dict[str, Any]) -> Finding:
    if one["off"]:
        return Finding("compile cache", "remark", "off: every start compiles anew")
    if one["folder"] is None or not one["writable"]:
        where = one["folder"] or "its folder cannot be made"
        return Finding("compile cache", "remark", f"{where}: cannot be written, so not used")
    size = f"{counted(one['files'], 'file')}, {one['bytes'] / 2**20:.0f} MiB"
    return Finding("compile cache", "ok", f"{one['folder']} ({size})")


def _exact(one: dict[str, Any]) -> Finding:
    text = f"off its closed form by {one['error']:.1e} (allowed {one['allowed']:.0e})"
    return Finding("mirror step", "ok" if one["ok"] else "wrong", text)


def _learning(one: dict[str, Any]) -> Finding:
    text = (
        f"closed {one['share']:.1%} of the gap between a random and the best policy "
        f"(at least {one['allowed']:.0%}), in {one['seconds']:.1f} s"
    )
    return Finding("learning", "ok" if one["ok"] else "wrong", text)


def _products(one: dict[str, Any]) -> Finding:
    text = f"{one['gflops']:.0f} GFLOP/s in float32 on one core"
    return Finding("matrix products", "ok", text)


def _speed(one: dict[str, Any]) -> Finding:
    if one["ratio"] is None:
        return Finding("speed", "ok", "the shipped table is of CPU cores, so nothing to compare")
    text = (
        f"{one['core_seconds_per_run']:.1f} core-seconds for a run of 10^6 steps on "
        f"{one['environment']}, {one['ratio']:.2f} times the shipped table's "
        f"{one['expected_core_seconds']:.1f}"
    )
    slow = one["ratio"] > SLOW
    return Finding("speed", "remark" if slow else "ok", text + ("; is it busy?" if slow else ""))


_WORDS = {
    "devices": _devices,
    "cache": _cache,
    "exact_step": _exact,
    "learning": _learning,
    "products": _products,
    "speed": _speed,
}


def run(args: argparse.Namespace) -> int:
    """Look, compute, tell."""
    from mirrorax._version import __version__

    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    told = [Finding("mirrorax", "ok", f"{__version__}, {system}")]
    lines, versions, extras = packages()
    told += lines
    for extra, present in extras.items():
        text = "present" if present else f"absent (pip install 'mirrorax[{extra}]')"
        told.append(Finding(f"extra {extra}", "ok", text))
    lines, facts = machine()
    told += lines
    if args.plugin:
        plugin.load(args)
        told += own_names()
    tested: dict[str, dict[str, Any]] = {}
    if not args.no_self_test:
        if not args.json and sys.stderr.isatty():
            print("self-test, about ten seconds ...", file=sys.stderr)
        tested = self_test()
        told += judge(tested)
    wrong = [one.subject for one in told if one.status == "wrong"]
    if args.json:
        answer = {
            "ok": not wrong,
            "mirrorax": __version__,
            "python": platform.python_version(),
            "versions": versions,
            "extras": extras,
            **facts,
            "self_test": tested,
            "findings": [asdict(one) for one in told],
        }
        print(json.dumps(answer))
    else:
        _show(told, wrong)
    return 1 if wrong else 0


def _show(told: list[Finding], wrong: list[str]) -> None:
    width = max(len(one.subject) for one in told)
    for one in told:
        print(f"{one.status:<6}  {one.subject:<{width}}  {one.text}")
    print()
    print(f"wrong: {', '.join(wrong)}" if wrong else "nothing is wrong")
