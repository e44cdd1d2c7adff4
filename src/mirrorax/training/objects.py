"""The names of objects that are passed to `train` in place of names."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from mirrorax import registry, regularizers
from mirrorax.envs import suite
from mirrorax.envs.adapter import Task, make
from mirrorax.errors import UserError
from mirrorax.regularizers import Drift, Potential


def environment_name(env: Task) -> str:
    """Return the name under which an environment's runs are recorded; it tells apart what differs.

    The suite's own name where it means an equal object, otherwise the path of its class, with the
    fields of a dataclass that is not as its class makes it without arguments. Such a path is a
    label: it means this object in this process, and nothing elsewhere.
    """
    name = _name_of_object(env)
    if ":" in name and not name.startswith("gymnasium:"):
        registry.adopt("environment", name, env)
    return name


def _name_of_object(env: Task) -> str:
    if not isinstance(env, Task):
        spec = getattr(env, "spec", None)  # of an environment that Gymnasium has made
        hint = f"; use 'gymnasium:{spec.id}'" if hasattr(spec, "id") else ""
        raise UserError(f"environment: {env!r} is neither a name nor an Environment object{hint}")
    name = str(getattr(env, "name", ""))
    if ":" not in name:
        try:
            if make(name) == env:
                return suite.environment(name).name
        except UserError:
            pass  # a name of the user's own
    path = f"{type(env).__module__}:{type(env).__name__}"
    if not is_dataclass(env):
        return path
    try:
        if type(env)() == env:
            return path
    except TypeError:
        pass  # it has fields without defaults
    values = ", ".join(f"{f.name}={getattr(env, f.name)!r}" for f in fields(env) if f.init)
    return f"{path}({' '.join(values.split())})" if values else path


def regularizer_name(kind: str, regularizer: Potential | Drift) -> str:
    """Return the name of h or D; an object must be what its name means."""
    is_potential = kind == "potential"
    cls = regularizers.Potential if is_potential else regularizers.Drift
    if not isinstance(regularizer, cls if is_potential else cls | regularizers.DriftFunctional):
        hint = f"; give it a name with mirrorax.register_{kind}" if callable(regularizer) else ""
        raise UserError(
            f"{kind}: {regularizer!r} is neither a name nor a {cls.__name__} object{hint}"
        )
    find = regularizers.potential if is_potential else regularizers.any_drift
    try:
        known = find(str(regularizer))
    except UserError:
        raise UserError(
            f"{kind}: {str(regularizer)!r} is not registered; give it its name with "
            f"mirrorax.register_{kind}({str(regularizer)!r}, function)"
        ) from None
    if known != regularizer:
        raise UserError(
            f"{kind}: the name {str(regularizer)!r} of this object means another one; "
            f"register it under a name of its own (mirrorax.register_{kind})"
        )
    return str(regularizer)
