"""Fine-tuning under a reference policy: reward against distance, one frontier per divergence.

    python examples/fine_tuning.py fine_tuning.png    # about two minutes on a laptop

A policy answers 12 prompts with one of 5 answers. It is trained on a first reward. Then it is
fine-tuned to a second reward, which prefers other answers, under the potential to(policy, d): each
alpha buys some of the second reward for some distance from the first policy.

Lines are exact: the best policy for each alpha, by `mirrorax.tabular`. Points are learned,
on-policy by `mirrorax.train`, with 95% intervals over seeds. Reward and distance of a learned
policy are computed from its probabilities, not estimated from episodes.
"""

import sys
import tempfile
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mirrorax
from mirrorax.envs.adapter import Environment, Step, integer
from mirrorax.figures.style import PALETTE, new, style
from mirrorax.mdpo.program import make_program
from mirrorax.regularizers import Table, To, drift
from mirrorax.tabular import best_response

PROMPTS, ANSWERS = 12, 5
DIVERGENCES = ("kl", "forward_kl", "chi_square", "bregman(lp(2))")
#: of the lines, and those of them that are trained
ALPHAS = np.geomspace(0.003, 10, 40)
TRAINED = (0.03, 0.1, 0.3, 1.0)
SEEDS = 5

__version__ = "1.0"
_rng = np.random.default_rng(4)
#: [task, prompt, answer]: the second reward is high where the first is low
REWARDS = _rng.uniform(size=(2, PROMPTS, ANSWERS))
REWARDS[1] = (REWARDS[1] + 1 - REWARDS[0]) / 2


@dataclass(frozen=True)
class Prompts(Environment):
    """One prompt, one answer, one reward: that of the first or of the second task."""

    task: int = 1
    name = "Prompts"
    num_actions, return_bounds, max_steps = ANSWERS, (0.0, 1.0), 1
    reset_words = 1

    def reset(self, noise):
        return {"prompt": integer(noise[0], PROMPTS), "answered": jnp.bool_(False)}

    def step(self, state, action, noise):
        reward = jnp.asarray(REWARDS[self.task - 1], jnp.float32)[state["prompt"], action]
        answered = jnp.bool_(True)
        return Step({**state, "answered": answered}, reward, answered, jnp.bool_(False))

    def remember(self, state):
        return state["prompt"][None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(PROMPTS) == memory[0]).astype(jnp.float32)


def probabilities(result: Any) -> np.ndarray:
    """Return the policies of a result at all prompts: [runs, prompts, answers]."""
    network = make_program(result.settings).actor
    logits = jax.vmap(network, in_axes=(0, None))(jnp.asarray(result.policies), jnp.eye(PROMPTS))
    return np.asarray(jax.nn.softmax(jnp.moveaxis(logits, 1, 2)), float)


def reward_and_distance(policy: np.ndarray, reference: np.ndarray) -> tuple[Any, Any]:
    """Return the second reward of policies, and KL(policy, reference), means over the prompts."""
    distance = np.asarray(drift("kl").value(policy, np.broadcast_to(reference, policy.shape)))
    return (policy * REWARDS[1]).sum(-1).mean(-1), distance.mean(-1)


def exact_frontier(
    name: str, reference: np.ndarray, alphas: np.ndarray = ALPHAS
) -> tuple[np.ndarray, np.ndarray]:
    """Return reward and distance of the best policy for each alpha:

    maximise over p, for each prompt:  <p, reward> - alpha d(p, reference)
    """
    potential = To(Table(reference), drift(name))
    policies = best_response(np.stack([REWARDS[1]] * len(alphas)), potential, alphas[:, None])
    return reward_and_distance(policies, reference)


def learned_points(
    name: str, folder: str, alphas: tuple[float, ...], seeds: int, steps: int
) -> np.ndarray:
    """Fine-tune the saved policy; return the policies, [alphas, seeds, prompts, answers]."""
    result = mirrorax.train(
        env="Prompts(task=2)",
        algorithm="on_policy",
        potential=f"to(policy, {name})",
        reference=folder,
        drift="kl",
        alpha=alphas,
        lam=0.1,
        seeds=seeds,
        steps=steps,
        normalize_advantages=False,  # alpha is in rewards
        actor_lr=0.005,
        lanes=len(alphas) * seeds,
        hidden=(32, 32),
        curve_points=0,
        progress=False,
    )
    return probabilities(result).reshape(len(alphas), seeds, PROMPTS, ANSWERS)


def train_reference(folder: str, steps: int = 20_480) -> np.ndarray:
    """Train a policy on the first reward and save it; return its probabilities."""
    result = mirrorax.train(
        env="Prompts(task=1)",
        algorithm="on_policy",
        alpha=0.1,
        seeds=1,
        steps=steps,
        normalize_advantages=False,
        hidden=(32, 32),
        lanes=1,
        curve_points=0,
        progress=False,
    )
    result.save(folder)
    return probabilities(result)[0]


def draw(ax: Any, reference: np.ndarray, learned: dict[str, np.ndarray]) -> None:
    """Draw a line for each divergence, and the learned points with their intervals."""
    from scipy.stats import t

    for i, name in enumerate(DIVERGENCES):
        reward, distance = exact_frontier(name, reference)
        ax.plot(distance, reward, color=PALETTE[i], label=name)
        if name not in learned:
            continue
        reward, distance = reward_and_distance(learned[name], reference)
        half = t.ppf(0.975, reward.shape[1] - 1) / np.sqrt(reward.shape[1])
        ax.errorbar(
            distance.mean(axis=1),
            reward.mean(axis=1),
            half * reward.std(axis=1, ddof=1),
            half * distance.std(axis=1, ddof=1),
            fmt="o",
            markersize=4,
            color=PALETTE[i],
        )
    ax.set_xlabel("distance: mean KL(policy, reference)")
    ax.set_ylabel("mean second reward")
    ax.set_title("Second reward bought by leaving the reference")
    ax.legend(title="d in to(policy, d)")


def main(picture: str) -> None:
    """Train, solve, print a table and draw the picture."""
    mirrorax.register_environment("Prompts", Prompts)
    with tempfile.TemporaryDirectory() as folder:
        reference = train_reference(folder)
        start = (reference * REWARDS[1]).sum(-1).mean()
        best = REWARDS[1].max(-1).mean()
        print(f"second reward: {start:.3f} of the reference, {best:.3f} at best")
        learned = {}
        for name in DIVERGENCES:
            learned[name] = learned_points(name, folder, TRAINED, SEEDS, 40_960)
            rewards, distances = reward_and_distance(learned[name], reference)
            exact, _ = exact_frontier(name, reference, np.array(TRAINED))
            for row in zip(TRAINED, rewards.mean(1), exact, distances.mean(1), strict=True):
                print(f"  {name:15} alpha %-5g reward %.3f (exact %.3f), KL %.3f" % row)
    with style():
        figure, ax = new(4.5, 3.2)
        draw(ax, reference, learned)
        figure.savefig(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "fine_tuning.png")
