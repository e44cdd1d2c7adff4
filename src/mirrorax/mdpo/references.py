"""Saved policies as references: `runs/sea`, or `runs/sea#3` for the run of that number.

A reference is written `FOLDER#RUN@DIGEST` in settings. The digest is of the network and its
parameters. It alone counts in the identity of a run, so a folder may be moved; one that holds
another policy than the digest says is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

import numpy as np

from mirrorax.errors import UserError, shown
from mirrorax.mdpo import checkpoint
from mirrorax.regularizers.reference import FrozenPolicy
from mirrorax.runs.settings import Settings

_FORM = re.compile(
    r"(?P<folder>.+?)(?:#(?P<run>\d{1,6}))?(?:@(?P<digest>[0-9a-f]{32}))?", re.DOTALL
)
#: the settings that a policy's network is made from
_NETWORK = ("environment", "hidden", "activation", "network")


def canonical(text: str) -> str:
    """Return a reference with the number of its run and its digest; the folder is read."""
    folder, run, digest, *_ = _read(text)
    return f"{folder}#{run}@{digest}"


@lru_cache(maxsize=16)
def find(text: str) -> tuple[FrozenPolicy, Settings]:
    """Return the policy of a reference, and the settings it was trained with."""
    from mirrorax.mdpo.program import make_program

    folder, _, digest, parameters, meta = _read(text)
    settings = checkpoint.settings_in(meta, f"reference: {folder!r}")
    network = make_program(settings).actor
    if parameters.shape != (network.num_parameters,):
        raise UserError(f"reference: {folder!r}: the policies do not fit their settings")
    return FrozenPolicy(network, parameters.tobytes(), digest), settings


def _read(text: str) -> tuple[str, int, str, np.ndarray, dict[str, Any]]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise UserError(
            f"reference: {shown(text)}: expected a folder of train --out, or folder#run"
        )
    folder, run = match["folder"], int(match["run"] or 0)
    where = f"reference: {folder!r}"
    policies, meta = checkpoint.load_policies(folder, where)
    settings = meta.get("settings")
    if not isinstance(settings, dict):
        raise UserError(f"{where}: it has no settings")
    if run >= len(policies):
        raise UserError(f"{where} has the runs 0 to {len(policies) - 1}, not {run}")
    made_of = json.dumps([settings.get(name) for name in _NETWORK], sort_keys=True)
    digest = hashlib.sha256(made_of.encode() + policies[run].tobytes()).hexdigest()[:32]
    if match["digest"] not in (None, digest):
        raise UserError(
            f"{where} holds another policy (digest {digest}) than the one that is "
            f"asked for ({match['digest']})"
        )
    return folder, run, digest, policies[run], meta
