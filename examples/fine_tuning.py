"""Fine-tune a policy to another reward while it stays near the policy it was.

    python examples/fine_tuning.py              draws fine_tuning.png and prints its numbers

A policy learns to reach one corner of a small room (the reference, mu). Then the reward moves to
the opposite corner, and the policy is trained on under the potential to(policy, d): reward minus
alpha d(pi, mu), for four divergences d and several alpha. Each alpha gives a point: the return on
the new task, and how far the policy is from mu in the states it visits, as KL(pi, mu).
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import mirrorax
from mirrorax.analysis.few_seeds import mean_interval
from mirrorax.cli import main
from mirrorax.envs.adapter import Environment, Step
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.references import find

SIDE = 5
DIVERGENCES = ("kl", "forward_kl", "chi_square", "bregman(lp(2))")
ALPHAS = (0.003, 0.03, 0.1, 0.3, 1.0)
FIELDS = {"hidden": (32, 32), "env_steps_per_update": 512, "batch_size": 128}


@dataclass(frozen=True)
class Room(Environment):
    """Walk in a square room from its middle; the reward is in a corner, less for each step."""

    corner: int = 0
    name = "Room"
    num_actions, return_bounds, max_steps = 4, (0.0, 1.0), 20

    def reset(self, noise):
        return {"place": jnp.full(2, SIDE // 2, jnp.int32), "time": jnp.int32(0)}

    def step(self, state, action, noise):
        moves = jnp.asarray([[0, 1], [0, -1], [1, 0], [-1, 0]], jnp.int32)
        place = jnp.clip(state["place"] + moves[action], 0, SIDE - 1)
        goal = jnp.asarray([self.corner * (SIDE - 1)] * 2, jnp.int32)
        reached, time = jnp.all(place == goal), state["time"] + 1
        reward = jnp.where(reached, 1.0 - 0.02 * time, 0.0)
        return Step({"place": place, "time": time}, reward, reached, time >= self.max_steps)

    def remember(self, state):
        return state["place"].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(SIDE)[None] == memory[:, None]).astype(jnp.float32).reshape(-1)


def distance(program, policy, mu, episodes=50):
    """Return the mean KL(pi, mu) over the states of some episodes of pi, played on a grid."""
    env = program.environment
    places = jnp.stack(jnp.meshgrid(*[jnp.arange(SIDE)] * 2, indexing="ij"), -1).reshape(-1, 2)
    x = jax.vmap(env.observe)(places.astype(jnp.uint8)).T
    logp, logm = (
        jax.nn.log_softmax(logits, axis=0) for logits in (program.actor(policy, x), mu(x))
    )
    p, kl = np.asarray(jnp.exp(logp)).T, np.asarray(jnp.sum(jnp.exp(logp) * (logp - logm), 0))
    rng, found = np.random.default_rng(0), []
    step = jax.jit(env.step)
    for _ in range(episodes):
        state, ended = env.reset(None), False
        while not ended:
            at = int(state["place"] @ jnp.asarray([SIDE, 1]))
            found.append(kl[at])
            after = step(state, jnp.int32(rng.choice(4, p=p[at] / p[at].sum())), None)
            state, ended = after.state, bool(after.terminated | after.truncated)
    return float(np.mean(found))


def measure(folder, seeds=4, steps=20_480):
    """Return {divergence: rows of (alpha, KL, return, low, high)}."""
    fields = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in FIELDS.items() if k != "hidden")
    words = f"train --env Room(corner=0) --algorithm on_policy --hidden 32,32 {fields} --quiet"
    words += f" --drift kl --lam 1 --alpha 0.02 --seeds 1 --steps {steps} --out {folder}"
    assert main(words.split()) == 0
    frontier = {}
    for d in DIVERGENCES:
        result = mirrorax.train(
            env="Room(corner=1)",
            algorithm="on_policy",
            potential=f"to(policy, {d})",
            reference=str(folder),
            actor_q="regularized",
            normalize_advantages=False,
            drift="kl",
            alpha=ALPHAS,
            lam=0.05,
            seeds=seeds,
            steps=steps,
            **FIELDS,
        )
        program = make_program(result.settings)
        mu = find(result.settings.reference)[0].logits
        near = [distance(program, jnp.asarray(p), mu) for p in result.policies]
        rows = []
        for alpha in ALPHAS:
            own = [i for i, run in enumerate(result.runs) if run.alpha == alpha]
            scores = result.normalized[own]
            low, high = mean_interval(scores, (0.0, 1.0)) or (scores.min(), scores.max())
            kl = float(np.mean([near[i] for i in own]))
            rows.append((alpha, kl, float(scores.mean()), float(low), float(high)))
        frontier[d] = rows
    return frontier


def draw(frontier, ax):
    """Draw the return against the distance, one line per divergence."""
    for d, rows in frontier.items():
        _, kl, mean, low, high = np.array(rows).T
        ax.errorbar(kl, mean, [mean - low, high - mean], marker="o", ms=4, lw=1, capsize=2, label=d)
    ax.set(xlabel="KL(pi, mu) in the states visited", ylabel="return on the new task")
    ax.legend(frameon=False, fontsize=8)
    return ax


if __name__ == "__main__":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mirrorax.register_environment("Room", Room)
    with tempfile.TemporaryDirectory() as temporary:
        frontier = measure(Path(temporary) / "reference")
    print("divergence        alpha     KL  return  95% interval")
    for d, rows in frontier.items():
        for alpha, kl, mean, low, high in rows:
            print(f"{d:16s} {alpha:6g} {kl:6.2f}  {mean:6.2f}  [{low:.2f}, {high:.2f}]")
    figure = Figure(figsize=(6, 4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(frontier, figure.subplots())
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "fine_tuning.png")
