"""MDPO(h, D): `config` says what a run is (without jax); the other modules run it."""
