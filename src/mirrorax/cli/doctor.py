"""`mirrorax doctor`: what is installed, what computes, whether it learns, how fast it is."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mirrorax.cli import flags
from mirrorax.cli.terminal import columns
from mirrorax.errors import UserError
from mirrorax.formatting import counted

EXAMPLES = """examples:
  mirrorax doctor                 everything, in about ten seconds
  mirrorax doctor --no-self-test  versions, cores and memory only
  mirrorax doctor --json
  mirrorax doctor --no-self-test --plugin mine   also check the names that mine.py registers

The self-test compares a mirror step with its closed form, trains on a small board and compares the
policy with the exact solution, and compares the speed of one core with the expected one.

exit codes: 0 nothing is wrong (there may be remarks), 1 something is wrong.
"""

#: Longer than this, and something hangs.
TIMEOUT = 300.0
#: Extras that only people who change mirrorax need.
_FOR_DEVELOPERS = ("dev", "docs")

Status = Literal["ok", "remark", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line of the output."""

    subject: str
    status: Status
    text: str


FLAGS = """
--no-self-test      look at the installation, train nothing
@plugin
@json
"""


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

    def needed(extra: str) -> list[Requirement]:
        return [r for r in wanted if r.marker is None or r.marker.evaluate({"extra": extra})]

    for requirement in needed(""):
        name, version = requirement.name, _installed(requirement.name)
        versions[name] = version
        if version is None:
            wrong.append(f"{name} is missing")
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{name} {version}, but {requirement.specifier} is needed")
    extras = {}
    for extra in about.get_all("Provides-Extra") or ():
        own = [r.name for r in needed(extra) if r not in needed("")]
        if own and extra not in _FOR_DEVELOPERS:
            extras[extra] = all(_installed(name) is not None for name in own)
    if wrong:
        finding = Finding("packages", "wrong", "; ".join(wrong) + "; install mirrorax again")
    else:
        main = ", ".join(f"{n} {versions[n]}" for n in ("jax", "gymnax", "numpy") if n in versions)
        finding = Finding("packages", "ok", f"all {len(versions)} required ones, with {main}")
    return [finding], versions, extras


def own_names() -> list[Finding]:
    """Check every environment, potential and drift that a plugin of the flag has registered."""
    from mirrorax import check_drift, check_environment, check_potential, registry

    checks: dict[registry.Kind, Callable[[str], Any]] = {
        "environment": check_environment,
        "potential": check_potential,
        "drift": check_drift,
    }
    findings = []
    for kind, check in checks.items():
        for name in registry.names(kind):
            if registry.owner(kind, name) is None:
                continue
            if kind == "environment" and (why := _not_played(name)):
                findings.append(Finding(f"{kind} {name}", "remark", why))
                continue
            try:
                result = check(name)
                good, text = bool(result), str(result).removeprefix(f"{name}: ")
            except UserError as error:
                good, text = False, str(error).removeprefix(f"{kind}: ")
            findings.append(Finding(f"{kind} {name}", "ok" if good else "wrong", text))
    if not findings:
        text = "it registers no environment, potential or drift"
        findings.append(Finding("plugin", "remark", text))
    return findings


def _not_played(name: str) -> str:
    """Say why a registered environment is not checked here, although nothing is wrong."""
    import inspect

    from mirrorax import registry

    maker = registry.registered("environment", name)
    if registry.is_factory(maker):
        try:
            inspect.signature(maker).bind()
        except TypeError:
            return f"not checked: it needs values in brackets, {name}(...)"
        except ValueError:
            return ""  # a callable without a signature
    try:
        from mirrorax.envs.adapter import make
        from mirrorax.envs.host import Gymnasium

        if isinstance(make(name), Gymnasium):
            return "not checked: use Gymnasium's check, gymnasium.utils.env_checker.check_env"
    except UserError:
        pass  # the check reports it
    return ""


def machine() -> tuple[list[Finding], dict[str, Any]]:
    """Look at cores and memory."""
    try:
        from mirrorax.mdpo.machine import available_bytes, cores
        from mirrorax.runs.settings import make_settings
        from mirrorax.sweep.measure import ask_sizes, known_sizes
    except ImportError as error:
        return [Finding("machine", "wrong", f"cannot be examined: {error}")], {}
    usable, free = len(cores()), available_bytes()
    settings = make_settings(environment="CartPole")
    ask_sizes([settings])
    sizes = known_sizes(settings)
    lanes = 0 if sizes is None else sizes.lanes_that_fit(usable)
    wide = f"{counted(usable, 'worker')} with up to {min(lanes, 4096):,} lanes of CartPole fit"
    enough = lanes >= 8
    facts = {"cores": usable, "free_bytes": free, "lanes_that_fit": lanes}
    findings = [
        Finding("cores", "ok", f"{usable} usable of {os.cpu_count()}, {platform.machine()}"),
        Finding("memory", "ok" if enough else "remark", f"{free / 2**30:.1f} GiB free; {wide}"),
    ]
    return findings, facts


def self_test(timeout: float = TIMEOUT) -> dict[str, dict[str, Any]]:
    """Run `mirrorax.selftest` in another process; return the result of each check."""
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
    results = {}
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            result = json.loads(line)
            results[result.pop("check")] = result
    if code != 0:
        reason = " ".join(last) or f"it ended with code {code}"
        results["self-test"] = {"status": "wrong", "text": f"it ended early: {reason}"}
    return results


def run(args: argparse.Namespace) -> int:
    """Look at the installation, run the self-test, print the findings."""
    from mirrorax._version import __version__

    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    findings = [Finding("mirrorax", "ok", f"{__version__}, {system}")]
    lines, versions, extras = packages()
    findings += lines
    for extra, present in extras.items():
        text = "present" if present else f"absent (pip install 'mirrorax[{extra}]')"
        findings.append(Finding(f"extra {extra}", "ok", text))
    lines, facts = machine()
    findings += lines
    if args.plugin:
        flags.load_plugins(args)
        findings += own_names()
    results: dict[str, dict[str, Any]] = {}
    if not args.no_self_test:
        if not args.json and sys.stderr.isatty():
            print("self-test, about ten seconds ...", file=sys.stderr)
        results = self_test()
        findings += [Finding(name, r["status"], r["text"]) for name, r in results.items()]
    wrong = [finding.subject for finding in findings if finding.status == "wrong"]
    if args.json:
        answer = {
            "ok": not wrong,
            "mirrorax": __version__,
            "python": platform.python_version(),
            "versions": versions,
            "extras": extras,
            **facts,
            "self_test": results,
            "findings": [asdict(finding) for finding in findings],
        }
        print(json.dumps(answer))
    else:
        print(columns([(f.status.ljust(6), f.subject, f.text) for f in findings], left=3))
        print(f"\nwrong: {', '.join(wrong)}" if wrong else "\nnothing is wrong")
    return 1 if wrong else 0
