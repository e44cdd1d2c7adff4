"""Settings under which a run takes a moment, and how the command line takes them."""

TINY = {
    "num_envs": 4,
    "env_steps_per_update": 16,
    "batch_size": 16,
    "buffer_size": 160,
    "hidden": (8,),
    "eval_episodes": 3,
}


def flags(fields):
    """Return the words of a command that give these fields."""
    texts = {name: "8" if name == "hidden" else str(value) for name, value in fields.items()}
    return [text for n, v in texts.items() for text in (f"--{n.replace('_', '-')}", v)]
