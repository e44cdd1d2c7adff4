"""The environments: `suite` names them (without jax), `adapter` steps them."""
