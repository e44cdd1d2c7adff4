"""`mirrorax.train`: train MDPO(h, D) on an environment, over seeds and temperatures at once.

`request` checks what is asked for, `result` is what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mirrorax.callbacks import Callback, Callbacks
from mirrorax.errors import UserError
from mirrorax.runs.settings import RunValues, make_settings
from mirrorax.training.request import (
    GRID,
    LAYOUTS,
    Numbers,
    check_env_alone,
    check_lanes,
    check_layout,
    expand_seeds,
    name_of,
    plan_runs,
    regularizer_name,
)
from mirrorax.training.result import TrainResult, make_result

if TYPE_CHECKING:
    from mirrorax.envs.adapter import Environment
    from mirrorax.mdpo.session import Progress, Session
    from mirrorax.regularizers import Drift, Potential

__all__ = [
    "GRID",
    "KEPT_SESSIONS",
    "LAYOUTS",
    "TrainResult",
    "check_env_alone",
    "check_lanes",
    "check_layout",
    "expand_seeds",
    "plan_runs",
    "train",
]

#: Of more sessions than this (32 runs each on a CPU) only the policies are kept, not the states.
KEPT_SESSIONS = 4


def train(
    env: str | Environment,
    potential: str | Potential = "entropy",
    drift: str | Drift = "kl",
    alpha: Numbers = None,
    lam: Numbers = 0.1,
    seeds: int | Iterable[int] = 5,
    steps: int | None = None,
    *,
    w: Numbers = None,
    gamma: Numbers = None,
    reward_scale: Numbers = None,
    actor_lr: Numbers = None,
    critic_lr: Numbers = None,
    preset: str = "default",
    lanes: int | None = None,
    layout: Literal["map", "vmap"] | None = None,
    curve_points: int = 0,
    on_segment: Callable[[Progress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> TrainResult:
    """Train MDPO(h, D) and evaluate it.

    `alpha` (0.01 unless learned), `lam`, `w` (0.5 where alpha is learned), `gamma`, `reward_scale`
    and the learning rates may each be one number or several; several span a grid, and each point of
    it is trained with every seed, all side by side. `seeds` is a number of seeds or a list of them;
    `steps` is the preset's, 1,000,000 in `default`.
    `settings` are the fields of `mirrorax.runs.settings.Settings`, over those of the preset.
    `curve_points=n` evaluates about n times along the way (`curves["return"]`) and changes nothing;
    `eval_every=k` is a setting, and also records losses, h, D, temperatures and gradient norms.
    `layout` says how updates go over lanes, "map" or "vmap"; unless given, what suits the device.
    `on_segment` hears of progress and may raise to stop; `callbacks` are objects that hear of it,
    see `mirrorax.callbacks`.

    A run depends on its own specification alone: it is the same in any grid, and in a sweep.
    """
    check_env_alone(env, settings)
    made = make_settings(
        preset,
        **{
            **settings,
            "environment": name_of(env),
            "potential": regularizer_name("potential", potential),
            "drift": regularizer_name("drift", drift),
            **({} if steps is None else {"steps": steps}),
        },
    )
    traced = (alpha, lam, w, gamma, reward_scale, actor_lr, critic_lr)
    runs = plan_runs(made, dict(zip(GRID, traced, strict=True)), seeds)
    check_lanes(lanes)
    check_layout(layout)
    listeners = Callbacks(callbacks)
    if not isinstance(curve_points, int) or isinstance(curve_points, bool) or curve_points < 0:
        raise UserError(f"curve_points: {curve_points!r}: expected a whole number, 0 or more")

    # Everything is valid: only now what is heavy.
    from mirrorax.envs.adapter import make
    from mirrorax.mdpo.chunk import run_sessions, sessions
    from mirrorax.mdpo.program import default_lanes, make_program
    from mirrorax.runs.identity import run_key, specification

    environment = make(made.environment) if isinstance(env, str) else env
    program = make_program(
        made,
        environment,
        None if isinstance(potential, str) else potential,
        None if isinstance(drift, str) else drift,
    )
    keys = np.array([run_key(specification(made, run)) for run in runs], np.uint32)
    columns = {name: [getattr(run, name) for run in runs] for name in RunValues.model_fields}
    every = None
    if curve_points and not made.eval_every:
        every = max(1, made.updates // curve_points)
    count = -(-len(runs) // (lanes or default_lanes()))
    policies: list[np.ndarray] = []
    kept: list[Session] = []

    def one_by_one() -> Iterator[Session]:
        for session in sessions(made, columns, keys, lanes, program, every, layout):
            yield session
            policies.append(session.policies)
            if count <= KEPT_SESSIONS:
                kept.append(session)

    def hear(progress: Progress) -> None:
        if on_segment is not None:
            on_segment(progress)
        listeners.on_segment(progress)

    result = None
    try:
        listeners.on_start(made, runs)
        done = run_sessions(one_by_one(), count, hear)
        result = make_result(made, runs, done, environment.return_bounds, policies, kept)
    finally:
        listeners.on_end(result)
    return result
