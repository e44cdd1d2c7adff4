"""MDPO(h, D): the networks, the update, and training in lanes."""
