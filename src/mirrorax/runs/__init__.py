"""What a run is and what became of it: settings, identity, chunks and outcomes. Needs no jax."""
